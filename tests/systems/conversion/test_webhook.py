"""A webhook tells each end of a job once, signed, and never to an address that is not public."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.systems.conversion.place import PDF, AnyStore, Place, environment, opened
from tests.systems.conversion.stub import Seen, stub

from holdfast.errors import CallError
from holdfast.providers.outbound import OutboundPolicy
from holdfast.providers.webhook import send_notice, url_problem
from holdfast.stores.clock import Clock
from holdfast.tables import cases, jobs
from holdfast_systems.conversion.expiry import expire_once

pytestmark = pytest.mark.spec("C12", "K18")
SECRET = "a-webhook-secret-of-the-tests"
Open = Callable[[Clock], AnyStore]


def env(folder: Path, **more: str) -> dict[str, str]:
    return environment(folder, WEBHOOK_SECRET=SECRET, WEBHOOK_PRIVATE_HOSTS="127.0.0.1", **more)


def told(seen: Seen) -> dict[str, Any]:
    """The body of a notice, if its signature is right."""
    content = f"{seen.headers['webhook-id']}.{seen.headers['webhook-timestamp']}.{seen.body.decode()}"
    digest = hmac.new(SECRET.encode(), content.encode(), hashlib.sha256).digest()
    assert seen.headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
    return dict(json.loads(seen.body))


async def notices(place: Place) -> list[Any]:
    async with place.kernel.store.reading() as tx:
        return list(await jobs.page(tx, kind="conversion.webhook"))


@pytest.mark.spec("001.37")
async def test_each_end_of_a_job_is_told_once_and_signed(open_store: Open, tmp_path: Path) -> None:
    async with stub() as hook, opened(open_store, env(tmp_path)) as place:
        job = await place.upload(webhookUrl=hook.url)
        await place.world.run_until_idle()
        seen = await hook.next()
        body = told(seen)
        assert (body["type"], body["job"]["id"], body["job"]["status"]) == ("job.complete", job["id"], "complete")
        assert int(seen.headers["webhook-timestamp"]) == place.world.clock.now_ms() // 1_000
        assert seen.headers["host"] == hook.url.split("/")[2]
        place.world.clock.advance(7 * 86_400)
        await expire_once(place.kernel, place.settings)
        await place.world.run_until_idle()
        assert told(await hook.next())["type"] == "job.expired"
        assert hook.seen.empty() and [row.state for row in await notices(place)] == ["succeeded"] * 2


async def test_a_failure_and_the_retry_after_it_are_two_events(open_store: Open, tmp_path: Path) -> None:
    async with stub() as hook, opened(open_store, env(tmp_path)) as place:
        place.gateway.errors = [CallError.from_status(422, "at /srv/x", {}, now_ms=0) for _ in range(2)]
        job = await place.upload(webhookUrl=hook.url)
        await place.world.run_until_idle()
        first = await hook.next()
        error = told(first)["job"]["error"]
        assert error == {"code": "GW_4XX", "message": "The converter refused this document."}
        await place.client().post(f"/api/jobs/{job['id']}/retry")
        await place.world.run_until_idle()
        assert told(await hook.next())["type"] == "job.failed"
        other = await place.upload(webhookUrl=hook.url, priority="low")
        await place.client().post(f"/api/jobs/{other['id']}/cancel")
        await place.world.run_until_idle()
        assert told(await hook.next())["type"] == "job.cancelled"


async def test_a_delivery_is_repeated_under_one_id_until_it_is_answered(open_store: Open, tmp_path: Path) -> None:
    async with stub(statuses=[500, 503]) as hook, opened(open_store, env(tmp_path)) as place:
        place.world.crash_at("effect.after_send")
        await place.upload(webhookUrl=hook.url)
        await place.world.run_until_idle()
        seen = [await hook.next() for _ in range(4)]
        assert hook.seen.empty() and place.world.crashes == 1
        assert len({one.headers["webhook-id"] for one in seen}) == 1, "a receiver could not tell a repetition"
        assert len({told(one)["job"]["id"] for one in seen}) == 1


async def test_a_receiver_that_asks_for_time_holds_back_nobody_elses_notice(open_store: Open, tmp_path: Path) -> None:
    async with (
        stub(statuses=[429], headers={"Retry-After": "600"}) as busy,
        stub() as idle,
        opened(open_store, env(tmp_path)) as place,
    ):
        await place.upload(webhookUrl=busy.url)
        await place.world.work()
        await busy.next()
        await place.upload(webhookUrl=idle.url)
        await place.world.work()
        assert told(await idle.next())["type"] == "job.complete"
        assert sorted(row.state for row in await notices(place)) == ["queued", "succeeded"]


async def test_a_receiver_that_refuses_becomes_a_dead_letter(open_store: Open, tmp_path: Path) -> None:
    async with stub(statuses=[410]) as hook, opened(open_store, env(tmp_path)) as place:
        job = await place.upload(webhookUrl=hook.url)
        await place.world.run_until_idle()
        async with place.kernel.store.reading() as tx:
            assert [row.kind for row in await cases.page(tx)] == ["conversion.webhook"]
        assert (await place.job(job["id"]))["status"] == "complete", "a notice is no part of the conversion"


async def test_a_webhook_reaches_no_private_address(open_store: Open, tmp_path: Path) -> None:
    async with stub() as hook, opened(open_store, environment(tmp_path, WEBHOOK_SECRET=SECRET)) as place:
        await place.upload(webhookUrl=hook.url)
        await place.world.run_until_idle()
        async with place.kernel.store.reading() as tx:
            assert [row.error_class for row in await cases.page(tx)] == ["ADDRESS_REFUSED"]
        assert hook.seen.empty()


@pytest.mark.parametrize(
    "host", ["2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "localhost", "169.254.169.254"]
)
async def test_in_no_spelling(host: str) -> None:
    with pytest.raises(CallError) as refused:
        await send_notice(f"http://{host}:9/", "{}", {}, OutboundPolicy(), 0)
    assert refused.value.failure.error_class == "ADDRESS_REFUSED"


async def test_a_redirect_is_not_followed() -> None:
    policy = OutboundPolicy(allow_private_hosts=frozenset({"127.0.0.1"}))
    async with stub(statuses=[307]) as hook:
        with pytest.raises(CallError) as refused:
            await send_notice(hook.url, "{}", {}, policy, 0)
        assert refused.value.failure.error_class == "WEBHOOK_REDIRECTED"


@pytest.mark.parametrize("url", ["ftp://x/", "javascript:1", "http://", "http://u:p@h/", "http://x/" + "y" * 3_000])
async def test_an_address_that_cannot_work_is_refused_at_once(open_store: Open, tmp_path: Path, url: str) -> None:
    assert url_problem(url)
    async with opened(open_store, env(tmp_path)) as place:
        answer = await place.client().post("/api/jobs", files={"file": ("a.pdf", PDF)}, data={"webhookUrl": url})
        assert (answer.status_code, answer.json()["field"]) == (422, "webhookUrl")
        assert place.files() == ([], [])

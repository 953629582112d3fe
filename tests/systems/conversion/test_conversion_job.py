"""A conversion ends in one result or one sentence, after the retries that its failures deserve."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.kernel.places import rows
from tests.systems.conversion.place import XML, AnyStore, Place, ToldGateway, environment, opened, read_events

from holdfast.core.failure import Category
from holdfast.engines.worker import Worker
from holdfast.errors import CallError
from holdfast.kernel.hold import hold_once
from holdfast.kernel.operate import cancel
from holdfast.kernel.reap import reap_once
from holdfast.kernel.turn import turn
from holdfast.stores.clock import Clock
from holdfast.testing import HandClock
from holdfast_systems.conversion.gateway import GrobidGateway, _refusal
from holdfast_systems.conversion.views import BANNER

DOWN = [CallError.from_status(502, "Bad gateway at /srv/secret/path", {}, now_ms=0) for _ in range(40)]
LEAK = "Traceback in /srv/app/secret.py, token=abcdef0123456789"


def millis(iso: str) -> int:
    return round(datetime.fromisoformat(iso).timestamp() * 1_000)


@pytest.mark.spec("C5")
async def test_a_conversion_writes_its_result_and_says_so(place: Place) -> None:
    job = await place.upload()
    await place.work()
    done = await place.job(job["id"])
    assert (done["status"], done["attemptCount"], done["error"]) == ("complete", 1, None)
    assert place.files()[1] == [f"{job['id']}.xml"]
    answer = await place.client().get(done["result"]["url"])
    assert (answer.content, len(answer.content)) == (XML, done["result"]["size"])
    assert answer.headers["content-disposition"] == 'attachment; filename="a.xml"'


@pytest.mark.spec("C3", "001.8", "001.11", "001.36")
async def test_retries_are_spaced_and_counted(place: Place) -> None:
    place.gateway.errors = DOWN[:3]
    job = await place.upload()
    for attempt, (low_s, high_s) in enumerate([(5, 10), (10, 15)], start=1):
        await place.work()
        waiting = await place.job(job["id"])
        delay_ms = millis(waiting["retryAfter"]) - place.world.clock.now_ms()
        assert low_s * 1_000 <= delay_ms <= high_s * 1_000
        assert (waiting["status"], waiting["attemptCount"], waiting["error"]) == ("queued", attempt, None)
        assert millis(waiting["lastAttemptAt"]) == place.world.clock.now_ms()
        assert waiting["lastError"] == {"code": "GW_5XX", "message": "The converter is not available."}
        place.world.clock.advance(delay_ms / 1_000 - 0.001)
        await place.work()
        assert len(place.gateway.calls) == attempt, "a claim before its time"
        place.world.clock.advance(0.001)
    await place.work()
    failed = await place.job(job["id"])
    assert (failed["status"], failed["attemptCount"], failed["retryAfter"]) == ("failed", 3, None)
    assert failed["error"] == {"code": "GW_5XX", "message": "The converter is not available."}
    await place.world.run_until_idle()
    assert len(place.gateway.calls) == 3


@pytest.mark.spec("C2", "C3", "001.4", "001.36")
@pytest.mark.parametrize(
    ("error", "code", "calls"),
    [
        (CallError.from_status(400, LEAK, {}, now_ms=0), "GW_4XX", 1),
        (CallError.from_status(422, LEAK, {}, now_ms=0), "GW_4XX", 1),
        (CallError.from_status(500, LEAK, {}, now_ms=0), "GW_5XX", 3),
        (CallError.of(Category.NETWORK, "GATEWAY_TIMEOUT", LEAK, faults=True), "GW_TIMEOUT", 3),
        (CallError.of(Category.VALIDATION, "PARSE_ERROR", LEAK), "GW_4XX", 1),
        (CallError.of(Category.UPSTREAM, "LOCAL_PRESSURE", LEAK), "IO_ERROR", 3),
        (OSError(28, LEAK), "IO_ERROR", 3),
        (MemoryError(LEAK), "IO_ERROR", 3),
        (RuntimeError(LEAK), "UNKNOWN", 3),
        (TimeoutError(LEAK), "GW_TIMEOUT", 3),
    ],
    ids=lambda value: getattr(value, "error_class", None) or str(value)[:12],
)
async def test_a_failure_has_one_code_and_leaks_nothing(place: Place, error: Exception, code: str, calls: int) -> None:
    place.gateway.errors = [error] * 3
    job = await place.upload()
    await place.world.run_until_idle()
    failed = await place.job(job["id"])
    assert (failed["status"], failed["error"]["code"], len(place.gateway.calls)) == ("failed", code, calls)
    assert "\n" not in failed["error"]["message"]
    events = await place.client().get(f"/api/jobs/{job['id']}/events")
    listed = await place.client().get("/api/jobs")
    for text in (json.dumps(failed), events.text, listed.text):
        assert not any(
            word in text for word in ("Traceback", "/srv", "abcdef", "error_class", str(place.base.data_dir))
        )


@pytest.mark.spec("C2", "C3")
async def test_a_source_that_is_gone_is_an_io_error(place: Place) -> None:
    job = await place.upload()
    (place.settings.uploads / f"{job['id']}.pdf").unlink()
    await place.world.run_until_idle()
    failed = await place.job(job["id"])
    assert (failed["error"]["code"], failed["attemptCount"], place.gateway.calls) == ("IO_ERROR", 3, [])


@pytest.mark.spec("C3")
async def test_a_result_that_cannot_be_written_is_tried_again(place: Place) -> None:
    job = await place.upload()
    aside = place.settings.results.with_name("aside")
    place.settings.results.rename(aside)
    await place.work()
    assert (await place.job(job["id"]))["lastError"]["code"] == "IO_ERROR"
    aside.rename(place.settings.results)
    await place.world.run_until_idle()
    assert (await place.job(job["id"]))["status"] == "complete"


@pytest.mark.spec("C9", "K14")
async def test_a_full_gateway_costs_no_attempt(place: Place) -> None:
    busy = GrobidGateway("http://grobid", dice=lambda: 0.5)._busy(0)
    place.gateway.errors = [busy] * 5
    job = await place.upload()
    await place.work()
    waiting = await place.job(job["id"])
    assert (waiting["status"], waiting["attemptCount"]) == ("queued", 0)
    waits_ms = millis(waiting["retryAfter"]) - place.world.clock.now_ms()
    assert 7_500 <= waits_ms <= 60_000, "what the gateway asked for, or the draw of our own backoff if that is longer"
    await place.world.run_until_idle()
    done = await place.job(job["id"])
    assert (done["status"], done["attemptCount"], len(place.gateway.calls)) == ("complete", 1, 6)


def not_now(status: int, retry_after_s: int | None = None) -> CallError:
    """What the HTTP gateway raises for an answer that cannot take the document now."""
    headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    return _refusal(status, "not now", headers, 0)


@pytest.mark.spec("C2", "C3", "001.3", "001.5", "001.19")
@pytest.mark.parametrize("status", [408, 425, 429])
async def test_a_gateway_that_asks_to_wait_holds_the_queue_and_costs_nothing(place: Place, status: int) -> None:
    place.gateway.errors = [not_now(status, 7_200 // 3)]
    first = await place.upload()
    await place.work()
    second = await place.upload()
    for _ in range(10):  # forty minutes: nothing is called before the time it asked for
        await place.work()
        assert len(place.gateway.calls) == 1
        place.world.clock.advance(239)
    shown = await place.job(first["id"])
    assert (shown["status"], shown["attemptCount"], shown["lastError"]["code"]) == ("queued", 0, "GW_5XX")
    assert (await place.job(second["id"]))["waitingFor"] and shown["waitingFor"] == shown["lastError"]["message"]
    assert (await place.client().get("/api/jobs")).json()["banner"] == BANNER
    place.world.clock.advance(30)
    await place.world.run_until_idle()
    for job in (first, second):
        done = await place.job(job["id"])
        assert (done["status"], done["attemptCount"], done["waitingFor"]) == ("complete", 1, None)
    assert (await place.client().get("/api/jobs")).json()["banner"] is None


@pytest.mark.spec("C3", "001.5")
async def test_a_gateway_that_is_busy_for_ever_is_asked_seldom_and_not_for_ever(place: Place) -> None:
    place.gateway.errors = [not_now(429, 1)] * 10_000
    job = await place.upload()
    began = place.world.clock.now_ms()
    await place.world.run_until_idle()
    failed = await place.job(job["id"])
    assert (failed["status"], failed["error"]["code"]) == ("failed", "GW_5XX")
    assert place.world.clock.now_ms() - began <= (3_600 + 1) * 1_000, "GATEWAY_HOLD_MAX_SEC ends it"
    assert len(place.gateway.calls) <= 12, "each wait is longer than the one before"


@pytest.mark.spec("C3", "001.5")
async def test_a_gateway_that_asks_for_a_thousand_years_is_called_again_after_a_day(place: Place) -> None:
    place.gateway.errors = [not_now(429, 10**12)]
    refused = await place.upload()
    await place.world.run_until_idle()
    assert (await place.job(refused["id"]))["error"]["code"] == "GW_5XX", "no job may be held for that long"
    place.world.clock.advance(86_400 - 600)
    later = await place.upload()
    await place.world.run_until_idle()
    assert (await place.job(later["id"]))["status"] == "complete"


@pytest.mark.spec("C3", "001.5")
@pytest.mark.parametrize("status", [408, 425, 429])
async def test_a_gateway_that_is_busy_without_a_time_is_tried_three_times(place: Place, status: int) -> None:
    place.gateway.errors = [not_now(status)] * 10
    job = await place.upload()
    await place.world.run_until_idle()
    failed = await place.job(job["id"])
    assert (failed["status"], failed["error"]["code"], failed["attemptCount"]) == ("failed", "GW_5XX", 3)
    assert len(place.gateway.calls) == 3


@pytest.mark.spec("C4", "K9", "001.16", "001.17", "001.18", "001.19")
async def test_a_failing_gateway_pauses_dispatch_until_it_is_well(place: Place) -> None:
    for errors in ([], DOWN[:10]):
        place.gateway.errors, place.gateway.well = errors, False
        for _ in range(10):
            await place.upload()
        await place.work()
    assert len(place.gateway.calls) == 20, "ten failed, ten did not: half of the last twenty"
    listed = (await place.client().get("/api/jobs")).json()
    assert listed["banner"] == BANNER == "Converter busy - jobs will resume automatically"
    place.world.clock.advance(60)
    await hold_once(place.kernel)
    await place.work()
    statuses = [job["status"] for job in (await place.client().get("/api/jobs")).json()["jobs"]]
    assert (statuses.count("queued"), len(place.gateway.calls)) == (10, 20), "dispatch goes on while it is held"
    place.gateway.well = True
    for probe in range(5):
        assert (await place.client().get("/api/jobs")).json()["banner"] == BANNER, f"closed after {probe} probes"
        await hold_once(place.kernel)
    assert (await place.client().get("/api/jobs")).json()["banner"] is None
    await place.world.run_until_idle()
    statuses = [job["status"] for job in (await place.client().get("/api/jobs")).json()["jobs"]]
    assert statuses == ["complete"] * 20


@pytest.mark.spec("C4")
async def test_a_document_that_is_refused_says_nothing_about_the_gateway(place: Place) -> None:
    place.gateway.errors = [CallError.from_status(422, "no", {}, now_ms=0) for _ in range(30)]
    for _ in range(30):
        await place.upload()
    await place.work()
    assert (await place.client().get("/api/jobs")).json()["banner"] is None


@pytest.mark.spec("C5", "K2", "K3", "001.32")
async def test_two_workers_make_one_result(open_store: Callable[[Clock], AnyStore], tmp_path: Path) -> None:
    """The first worker loses its lease while it converts; what it brings back late changes nothing."""
    clock, gateway = HandClock(), ToldGateway(hold=asyncio.Event(), xml=b"<late/>")
    async with opened(open_store, environment(tmp_path), gateway, clock) as place:
        job = await place.upload()
        slow = asyncio.ensure_future(Worker(place.kernel).run_until_idle())
        await gateway.called.wait()
        clock.advance(61)
        await reap_once(place.kernel)
        clock.advance(2)
        release, gateway.hold, gateway.xml = gateway.hold, None, XML
        await Worker(replace(place.kernel, store=open_store(clock))).run_until_idle()
        gateway.xml = b"<late/>"
        assert release is not None
        release.set()
        await slow
        done = await place.job(job["id"])
        assert (done["status"], done["attemptCount"]) == ("complete", 1)
        assert (await place.client().get(done["result"]["url"])).content == XML
        assert place.files()[1] == [f"{job['id']}.xml"]


@pytest.mark.spec("C5", "001.20")
@pytest.mark.parametrize("where", ["call.before", "call.after", "attempt.after_handler", "settle.before_commit"])
async def test_a_worker_that_dies_anywhere_costs_no_result(place: Place, where: str) -> None:
    job = await place.upload()
    place.world.crash_at(where)
    await place.world.run_until_idle()
    assert place.world.crashes == 1
    done = await place.job(job["id"])
    assert (done["status"], done["attemptCount"]) == ("complete", 1)
    assert place.files()[1] == [f"{job['id']}.xml"]


@pytest.mark.spec("C5")
async def test_a_claim_waits_in_the_queue_when_its_worker_stops(place: Place) -> None:
    job = await place.upload()
    taken, _ = await turn(place.kernel, "w", place.kernel.registry.queues, [], 1)
    assert len(taken) == 1
    assert (await place.job(job["id"]))["status"] == "processing"


@pytest.mark.spec("C8", "C12", "001.37")
async def test_a_cancelled_job_ends_at_once_and_leaves_no_result(place: Place) -> None:
    place.gateway.hold = asyncio.Event()
    job = await place.upload()
    work = asyncio.ensure_future(place.work())
    await place.gateway.called.wait()
    answer = await place.client().post(f"/api/jobs/{job['id']}/cancel")
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    place.gateway.hold.set()
    await work
    assert (await place.job(job["id"]))["status"] == "cancelled"
    assert place.files()[1] == []
    again = await place.client().post(f"/api/jobs/{job['id']}/cancel")
    assert (again.status_code, again.json()["code"]) == (409, "NOT_READY")


@pytest.mark.spec("C2", "001.1")
async def test_a_refusal_to_cancel_speaks_of_the_states_that_a_user_knows(place: Place) -> None:
    job = await place.upload()
    await place.work()
    refused = await place.client().post(f"/api/jobs/{job['id']}/cancel")
    assert refused.json()["detail"].startswith("The job is complete;")


@pytest.mark.spec("C8", "001.30")
async def test_a_stream_tells_a_job_from_its_first_event_to_its_last(place: Place) -> None:
    place.gateway.errors = DOWN[:1]
    job = await place.upload()
    await place.world.run_until_idle()
    answer = await place.client().get(f"/api/jobs/{job['id']}/events")
    told: list[tuple[str, dict[str, Any]]] = read_events(answer.text)
    assert [name for name, _ in told] == ["queued", "processing", "retry", "processing", "complete"]
    assert told[2][1]["status"] == "queued" and "retryAfter" in told[2][1]
    last = answer.text.rsplit("id: ", 1)[1].split()[0]
    async with asyncio.timeout(10):
        done = await place.client().get(f"/api/jobs/{job['id']}/events", headers={"Last-Event-ID": last})
    assert done.status_code == 204, "an EventSource would come back for ever"


@pytest.mark.spec("C8")
async def test_an_operator_cancels_too(place: Place) -> None:
    job = await place.upload()
    await cancel(place.kernel, job["id"], "ops")
    assert (await place.job(job["id"]))["status"] == "cancelled"


@pytest.mark.spec("C8")
async def test_the_source_of_a_failed_document_stays_for_as_long_as_it_may_be_tried_again(place: Place) -> None:
    place.gateway.errors = [CallError.from_status(400, "no", {}, now_ms=0)]
    await place.upload()
    await place.work()
    (row,) = await rows(place.world.kernel.store, "SELECT source_until FROM conversion_documents")
    kept_s = place.settings.source_retention_s
    assert kept_s > 0 and row["source_until"] == place.world.clock.now_ms() + int(kept_s * 1_000)

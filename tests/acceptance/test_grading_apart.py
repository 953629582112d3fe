"""The two services apart, several of each: relays that die, callbacks that are lost, streams that move between apps."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import pytest

from holdfast_systems.grading.contract import CALLBACK_QUEUE, REQUEST_QUEUE
from tests.acceptance.grading_site import GradingSite, MainApp, callback, graded

pytestmark = pytest.mark.slow

ENDS = ("COMPLETED", "REVIEW_REQUIRED")
Seen = tuple[str, str, dict[str, Any]]


@pytest.mark.spec("G3", "G17", "K10", "000.34")
async def test_a_relay_that_dies_keeps_submissions_and_another_one_catches_up(grading_site: GradingSite) -> None:
    site = grading_site
    dying = await site.main(HOLDFAST_FAILPOINTS="relay.after_claim=kill")
    async with dying.client() as client:
        key = {"Idempotency-Key": "6f1a7f5e-7c55-4f0e-9d3a-0a4d4b7c9a10"}
        payload = {"text": "Hello there. #relay", "taskType": "email", "questionId": "q"}
        with suppress(httpx.TransportError):  # it may die before it answers; what is committed counts
            await client.post("/api/submissions", json={"skill": "writing", "payload": payload}, headers=key)
    assert await dying.process.until_ended(60) == -9
    saved = site.in_main("SELECT request_id, status FROM submissions")
    assert [row["status"] for row in saved] == ["PENDING"]
    site.relay()
    async with site.stranger() as stranger:
        sent = await stranger.take(REQUEST_QUEUE, bool, "the request")
    assert {one["requestId"] for one in sent} == {saved[0]["request_id"]}
    published = "SELECT status FROM holdfast_outbox"
    await site.until_in_main(published, lambda rows: [r["status"] for r in rows] == ["published"], "the row's mark")


@pytest.mark.spec("G3", "K10")
async def test_several_relays_at_once_publish_every_request_once(grading_site: GradingSite) -> None:
    site = grading_site
    apps = [await site.main(OUTBOX_LEASE_SEC="30"), await site.main(OUTBOX_LEASE_SEC="30")]
    site.relay(OUTBOX_LEASE_SEC="30")
    made = await asyncio.gather(*[apps[number % 2].submit(f"r{number}") for number in range(40)])
    async with site.stranger() as stranger:
        sent = await stranger.take(REQUEST_QUEUE, lambda found: len(found) >= 40, "forty requests")
        marked = "SELECT COUNT(*) AS pending FROM holdfast_outbox WHERE status <> 'published'"
        await site.until_in_main(marked, lambda rows: rows[0]["pending"] == 0, "every row's mark")
        assert await stranger.depth(REQUEST_QUEUE) == 0
    assert Counter(one["requestId"] for one in sent) == Counter(one["requestId"] for one in made)


@pytest.mark.spec("G14", "G9", "G17", "K20")
@pytest.mark.parametrize("place, engine", [("relay.after_claim", "asyncio"), ("relay.after_publish", "celery")])
async def test_a_callback_whose_relay_dies_is_sent_again_and_counts_once(
    grading_site: GradingSite, place: str, engine: str
) -> None:
    site = grading_site
    site.engine = engine
    main, dying = await site.main(), site.service(HOLDFAST_FAILPOINTS=f"{place}=kill@2")
    submission = await main.submit("callback")
    assert await dying.until_ended(90) == -9
    await site.kill(dying)  # its Celery worker, if it has one, would go on without it
    site.service()
    await main.until_status(submission["id"], *ENDS)
    pending = "SELECT COUNT(*) AS pending FROM holdfast_outbox WHERE status <> 'published'"
    await site.until_in_service(pending, lambda rows: rows[0]["pending"] == 0, "every callback's mark")
    told = Counter(row["kind"] for row in site.in_main("SELECT kind FROM submission_events"))
    assert told["grading.completed"] + told["grading.review_required"] == 1


@pytest.mark.spec("G13")
async def test_a_stream_resumes_at_another_app_process_where_it_broke_off(grading_site: GradingSite) -> None:
    site = grading_site
    one, other = [await site.main() for _ in range(2)]
    submission = await one.submit("stream")
    async with site.stranger() as stranger:
        async with listening(one, submission["id"]) as events:
            await stranger.publish(CALLBACK_QUEUE, progress(submission, "PROCESSING", 0.1))
            first = await anext(events)
            await stranger.publish(CALLBACK_QUEUE, progress(submission, "ANALYZING", 0.4))
            second = await anext(events)
        await stranger.publish(CALLBACK_QUEUE, progress(submission, "GRADING", 0.7))
        missed = "SELECT COUNT(*) AS events FROM submission_events"
        await site.until_in_main(missed, lambda rows: rows[0]["events"] == 3, "an event that nobody listened to")
        async with listening(other, submission["id"], after=second[0]) as events:
            third = await anext(events)
            await stranger.publish(CALLBACK_QUEUE, callback(submission, "completed", graded()))
            rest = [event async for event in events]
    told = [first, second, third, *rest]
    steps = [data["status"] for _, _, data in told]
    assert steps == ["PROCESSING", "ANALYZING", "GRADING", "COMPLETED"], "in order, none twice, and then the end"
    assert told[-1][1] == "grading.completed"
    async with other.client() as client:
        over = await client.get(f"/api/submissions/{submission['id']}/events", headers={"Last-Event-ID": told[-1][0]})
    assert over.status_code == 204, "who has seen the end is told not to come back"


@pytest.mark.spec("G13", "G9")
async def test_streams_at_every_app_process_hear_what_any_of_them_consumed(grading_site: GradingSite) -> None:
    site = grading_site
    apps = [await site.main() for _ in range(2)]
    submission = await apps[0].submit("fan")
    async with (
        site.stranger() as stranger,
        listening(apps[0], submission["id"]) as here,
        listening(apps[1], submission["id"]) as there,
    ):
        for share in (0.1, 0.2, 0.3, 0.4):
            await stranger.publish(CALLBACK_QUEUE, progress(submission, "GRADING", share))
            heard = await anext(here), await anext(there)
            assert heard[0] == heard[1] and heard[0][2]["progress"] == share


def progress(submission: dict[str, Any], status: str, share: float) -> dict[str, Any]:
    return callback(submission, "progress", {"status": status, "progress": share})


@asynccontextmanager
async def listening(app: MainApp, submission_id: str, after: str | None = None) -> AsyncIterator[AsyncIterator[Seen]]:
    """The learner's stream at one app: (id, name, data) of each event, pings left out."""
    headers = {"Last-Event-ID": after} if after else {}
    path = f"/api/submissions/{submission_id}/events"
    async with asyncio.timeout(90), app.client() as client, client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        yield _events(answer)


async def _events(answer: httpx.Response) -> AsyncIterator[Seen]:
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        name, _, value = line.partition(":")
        if line:
            fields[name] = value.strip()
        elif fields:
            if fields.get("event") not in (None, "ping"):
                yield fields["id"], fields["event"], json.loads(fields["data"])
            fields = {}


async def _true(found: bool) -> bool:
    return found

"""The acceptance lists of sources 002 and 003, one test for each item: what comes twice, late or in the wrong order.

The other side of the queue is a stranger that knows the contract only, so each service is shown to stand alone.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast_systems.grading.contract import CALLBACK_QUEUE, REQUEST_QUEUE
from tests.acceptance.grading_site import GradingSite, MainApp, Stranger, callback, graded
from tests.acceptance.process import until

pytestmark = pytest.mark.slow


@dataclass
class Meeting:
    """Our main app with one submission, and a stranger in the grading service's place."""

    site: GradingSite
    main: MainApp
    stranger: Stranger
    submission: dict[str, Any]
    sent: int = 0

    async def call_back(self, kind: str, data: dict[str, Any], event_id: str | None = None) -> None:
        """Send a callback and wait until it is handled: the app handles several at once, in no order of its own."""
        await self.stranger.publish(CALLBACK_QUEUE, callback(self.submission, kind, data, event_id))
        self.sent += 1

        async def handled() -> bool:
            return self.main.process.log.read_text(errors="replace").count('"event": "callback",') >= self.sent

        await until(handled, f"callback {self.sent} to be handled", 60, process=self.main.process)

    def events(self) -> list[tuple[str, str]]:
        rows = self.site.in_main("SELECT kind, data::json ->> 'status' AS status FROM submission_events ORDER BY seq")
        return [(row["kind"], row["status"]) for row in rows]

    def version(self) -> int:
        """How often the submission was written."""
        return int(self.site.in_main("SELECT version FROM submissions")[0]["version"])


@pytest.fixture
async def meeting(grading_site: GradingSite) -> AsyncIterator[Meeting]:
    main = await grading_site.main()
    async with grading_site.stranger() as stranger:
        submission = await main.submit("one")
        sent = await stranger.take(REQUEST_QUEUE, lambda found: len(found) == 1, "the request")
        assert sent[0]["requestId"] == submission["requestId"]
        yield Meeting(grading_site, main, stranger, submission)


@pytest.mark.spec("G17", "G9", "K11")
async def test_a_duplicate_progress_callback_is_applied_once_by_its_event_id(meeting: Meeting) -> None:
    same = str(uuid.uuid4())
    for _ in range(3):
        await meeting.call_back("progress", {"status": "GRADING", "progress": 0.5}, same)
    await meeting.call_back("progress", {"status": "GRADING", "progress": 0.6})
    assert meeting.events() == [("grading.progress", "GRADING")] * 2 and meeting.version() == 2


@pytest.mark.spec("G17", "G9", "K11", "K15", "002.23", "003.11")
async def test_a_duplicate_final_callback_changes_nothing_whatever_its_event_id(meeting: Meeting) -> None:
    same = str(uuid.uuid4())
    for _ in range(3):
        await meeting.call_back("completed", graded(7.0), same)
    await meeting.call_back("completed", graded(3.0, "A2"))
    await meeting.call_back("error", {"error": {"type": "X", "code": "X", "message": "x", "retryable": False}})
    shown = await meeting.main.show(meeting.submission["id"])
    assert (shown["status"], shown["result"]["overallScore"]) == ("COMPLETED", 7.0), "the first final result stands"
    assert meeting.events() == [("grading.completed", "COMPLETED")] and meeting.version() == 1


@pytest.mark.spec("G17", "G9", "K15", "002.20")
async def test_callbacks_in_the_wrong_order_never_move_a_submission_backwards(meeting: Meeting) -> None:
    await meeting.call_back("progress", {"status": "GRADING", "progress": 0.7})
    await meeting.call_back("progress", {"status": "PROCESSING", "progress": 0.1})
    await meeting.call_back("progress", {"status": "ANALYZING", "progress": 0.9})
    before = await meeting.main.show(meeting.submission["id"])
    assert before["status"] == "PROCESSING" and before["progress"] == {"status": "GRADING", "progress": 0.7}
    await meeting.call_back("completed", graded(7.0))
    await meeting.call_back("progress", {"status": "PROCESSING", "progress": 0.1})
    after = await meeting.main.show(meeting.submission["id"])
    assert after["status"] == "COMPLETED" and after["result"]["overallScore"] == 7.0
    assert [kind for kind, _ in meeting.events()] == ["grading.progress", "grading.completed"]


@pytest.mark.spec("G17", "G8")
async def test_only_an_error_that_is_not_retryable_is_final(meeting: Meeting) -> None:
    error = {"type": "CIRCUIT_OPEN", "code": "CIRCUIT_OPEN", "message": "wait"}
    await meeting.call_back("error", {"error": error | {"retryable": True}})
    assert (await meeting.main.show(meeting.submission["id"]))["status"] == "PROCESSING"
    final = {"type": "STT_FAIL", "code": "STT_FAIL", "message": "no", "retryable": False}
    await meeting.call_back("error", {"error": final})
    failed = await meeting.main.until_status(meeting.submission["id"], "FAILED")
    assert failed["failureReason"] == "STT_FAIL"


@pytest.mark.spec("G1", "K13", "G17", "003.2", "003.3")
async def test_a_repeated_post_is_one_submission_and_another_payload_is_a_conflict(meeting: Meeting) -> None:
    key = str(uuid.uuid4())
    one, same = [await meeting.main.submit("posted", key=key) for _ in range(2)]
    assert one == same
    async with meeting.main.client() as client:
        body = {"skill": "writing", "payload": {"text": "other", "taskType": "email", "questionId": "q"}}
        other = await client.post("/api/submissions", json=body, headers={"Idempotency-Key": key})
    assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")
    sent = await meeting.stranger.take(REQUEST_QUEUE, lambda found: len(found) == 1, "one request")
    assert sent[0]["requestId"] == one["requestId"]
    assert meeting.site.in_main("SELECT COUNT(*) AS made FROM submissions")[0]["made"] == 2


async def _true(found: bool) -> bool:
    return found

"""Items of the acceptance lists in which the engine takes part and nobody is killed, each on both engines.

One grading service stands for all tests of an engine. The other side of the queue is our main app, or a stranger that
knows the contract only.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from holdfast_systems.grading.contract import CALLBACK_QUEUE, DEAD_LETTER_QUEUE, REQUEST_QUEUE
from tests.acceptance.grading_site import GradingSite, MainApp, Stranger, asserted_once, callback, graded, request
from tests.acceptance.model_endpoint import Answer
from tests.acceptance.process import until

pytestmark = pytest.mark.slow


@pytest.fixture
async def main(standing: GradingSite) -> AsyncIterator[MainApp]:
    """Our main app, for one test."""
    app = await standing.main()
    yield app
    await standing.kill(app.process)


@pytest.fixture
async def stranger(standing: GradingSite) -> AsyncIterator[Stranger]:
    """A foreign main app."""
    async with standing.stranger() as foreign:
        yield foreign


@pytest.mark.spec("G17", "G6", "K4", "K20", "000.14")
async def test_a_429_is_waited_out_as_long_as_it_asks(standing: GradingSite, main: MainApp) -> None:
    standing.model.next.append(Answer(429, {"Retry-After": "2"}))
    await asserted_once(standing, main, await main.submit("slow"))
    first, second = (call.at_s for call in standing.model.calls if call.text == "slow")
    assert second - first >= 2.0


@pytest.mark.spec("G17", "G6", "K4", "K20")
@pytest.mark.parametrize("engine", ["asyncio", "celery"])
async def test_a_retry_after_beyond_the_cap_is_cut_to_it(grading_site: GradingSite, engine: str) -> None:
    """On a site of its own: the processes remember what the provider asked for, whatever the database says."""
    grading_site.engine = engine
    grading_site.service()
    grading_site.model.next.append(Answer(429, {"Retry-After": "7200"}))
    asked = request("capped")
    async with grading_site.stranger() as stranger:
        await stranger.publish(REQUEST_QUEUE, asked)
    mine = f"job_key = '{asked['requestId']}' AND state = 'queued' AND is_due = 0 AND failures = 0"
    waiting = await grading_site.until_in_service(
        f"SELECT run_at, updated_at FROM holdfast_jobs WHERE {mine}", bool, "the job to wait for its retry"
    )
    wait_ms = waiting[0]["run_at"] - waiting[0]["updated_at"]
    assert 295_000 <= wait_ms <= 300_000, "five minutes at most, whatever the provider asks"


@pytest.mark.spec("G6", "G17", "K7", "K20", "000.15")
async def test_a_provider_that_stays_down_ends_in_a_dead_letter_and_a_failed_submission(
    standing: GradingSite, main: MainApp, stranger: Stranger
) -> None:
    standing.model.next.extend([Answer(503)] * 4)
    submission = await main.submit("outage")
    failed = await main.until_status(submission["id"], "FAILED")
    assert failed["failureReason"] == "LLM_FAIL" and standing.model.asked("outage") == 4, (
        "three retries after the first"
    )
    letters = await stranger.take(DEAD_LETTER_QUEUE, _any_of(submission["requestId"]), "the dead letter")
    (letter,) = _of(letters, submission["requestId"])
    assert (letter["submissionId"], letter["attemptsMade"]) == (submission["id"], 4) and letter["lastError"]


@pytest.mark.spec("G17", "G12", "K14", "K20", "000.40")
async def test_a_timeout_is_final_and_a_late_result_is_stored_and_flips_nothing(
    standing: GradingSite, stranger: Stranger
) -> None:
    main = await standing.main(GRADING_SLA_WRITING_SEC="0.2")
    with standing.model.held():
        submission = await main.submit("late")
        failed = await main.until_status(submission["id"], "FAILED")
    assert failed["failureReason"] == "TIMEOUT"
    await stranger.publish(CALLBACK_QUEUE, callback(submission, "completed", graded(9.0, "C1")))
    mine = f"SELECT * FROM submissions WHERE id = '{submission['id']}'"
    (stored,) = await standing.until_in_main(mine, lambda rows: rows[0]["is_late"] == 1, "late result")
    assert json.loads(stored["ai_result"])["overallScore"] == 9.0 and stored["final_result"] is None
    shown = await main.show(submission["id"])
    assert (shown["status"], shown["failureReason"], shown["isLate"]) == ("FAILED", "TIMEOUT", True)
    told = standing.in_main(f"SELECT kind FROM submission_events WHERE submission_id = '{submission['id']}'")
    assert [event["kind"] for event in told if event["kind"] != "grading.progress"] == ["grading.failed"]
    await standing.kill(main.process)


@pytest.mark.spec("G17", "G9", "K11", "K15", "K20")
async def test_callbacks_that_come_again_in_the_wrong_order_change_nothing(
    standing: GradingSite, main: MainApp, stranger: Stranger
) -> None:
    submission = await main.submit("again")
    await asserted_once(standing, main, submission)
    mine = f"SELECT version, status, final_result FROM submissions WHERE id = '{submission['id']}'"
    before, events = standing.in_main(mine), _events(standing, submission)
    sent = standing.in_service(
        f"SELECT payload FROM holdfast_outbox WHERE message_type = '{CALLBACK_QUEUE}' ORDER BY seq"
    )
    sent = [row for row in sent if json.loads(row["payload"])["requestId"] == submission["requestId"]]
    assert len(sent) >= 2, "progress and an end"
    anew = [json.dumps(json.loads(row["payload"]) | {"eventId": str(uuid.uuid4())}) for row in sent]
    for text in [row["payload"] for row in reversed(sent)] + list(reversed(anew)):
        await stranger.publish(CALLBACK_QUEUE, text.encode())
    await until(lambda: _heard(main, submission, 3 * len(sent)), "every callback to be handled", 90)
    assert standing.in_main(mine) == before and _events(standing, submission) == events


POISON: list[bytes] = [
    b"\xff\xfe no text at all",
    b'{"requestId": ',
    b"[" * 200_000,
    json.dumps({"requestId": str(uuid.UUID(int=7, version=4)), "skill": "dancing"}).encode(),
    json.dumps({**request("huge"), "padding": "x" * 1_200_000}).encode(),
]


@pytest.mark.spec("G17", "G5", "K20", "000.39")
async def test_poison_goes_to_the_dead_letter_queue_once_and_never_loops(
    standing: GradingSite, stranger: Stranger
) -> None:
    healthy, jobs = request("healthy"), "SELECT request_id FROM grading_jobs"
    known = {row["request_id"] for row in standing.in_service(jobs)}
    for body in POISON:
        await stranger.publish(REQUEST_QUEUE, body)
    await stranger.publish(REQUEST_QUEUE, healthy)
    answers = await stranger.take(
        CALLBACK_QUEUE, lambda found: bool(_completed(found, healthy["requestId"])), "the healthy one's result"
    )
    letters = await stranger.take(DEAD_LETTER_QUEUE, lambda found: len(_invalid(found)) >= len(POISON), "dead letters")
    refused = [one["data"]["error"] for one in answers if one["kind"] == "error" and one["requestId"] not in known]
    assert refused and {(one["type"], one["retryable"]) for one in refused} == {("INVALID_INPUT", False)}
    assert len(_invalid(letters)) == len(POISON) and await stranger.depth(REQUEST_QUEUE) == 0
    for letter in _invalid(letters):
        assert letter["attemptsMade"] == 0
        assert {"requestId", "submissionId", "lastError", "timestamp", "originalMessage"} <= set(letter)
    assert {row["request_id"] for row in standing.in_service(jobs)} - known == {healthy["requestId"]}


@pytest.mark.spec("G17", "G4", "K11", "K20")
async def test_a_duplicate_request_is_graded_once_and_answered_again(standing: GradingSite, stranger: Stranger) -> None:
    model, asked = standing.model, request("twice")
    mine = f"SELECT status, repeats FROM grading_jobs WHERE request_id = '{asked['requestId']}'"

    def results(count: int) -> Callable[[list[dict[str, Any]]], bool]:
        return lambda found: len(_completed(found, asked["requestId"])) == count

    with model.held():
        await stranger.publish(REQUEST_QUEUE, asked)
        await until(lambda: _true(model.asked("twice") == 1), "the grading to begin", 90, process=standing.processes[0])
        for _ in range(2):
            await stranger.publish(REQUEST_QUEUE, asked)
        await standing.until_in_service(mine, lambda rows: rows[0]["repeats"] == 2, "two duplicates to be counted")
    first = await stranger.take(CALLBACK_QUEUE, results(1), "the result")
    for _ in range(2):
        await stranger.publish(REQUEST_QUEUE, asked)
    again = await stranger.take(CALLBACK_QUEUE, results(2), "the result, twice more")
    answers = _completed(first + again, asked["requestId"])
    assert len(answers) == 3 and len({one["eventId"] for one in answers}) == 3
    assert all(one["data"] == answers[0]["data"] for one in answers), "the kept result, not a new one"
    assert model.asked("twice") == 1, "one grading, one charge"
    assert standing.in_service(mine) == [{"status": "completed", "repeats": 4}]
    assert not _of(await stranger.take(DEAD_LETTER_QUEUE, lambda found: True, "what is there"), asked["requestId"])


def _of(found: list[dict[str, Any]], request_id: str) -> list[dict[str, Any]]:
    return [one for one in found if one.get("requestId") == request_id]


def _any_of(request_id: str) -> Callable[[list[dict[str, Any]]], bool]:
    return lambda found: bool(_of(found, request_id))


def _completed(found: list[dict[str, Any]], request_id: str) -> list[dict[str, Any]]:
    return [one for one in _of(found, request_id) if one["kind"] == "completed"]


def _invalid(letters: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [letter for letter in letters if letter["failureReason"] == "INVALID_INPUT"]


def _events(site: GradingSite, submission: dict[str, Any]) -> list[dict[str, Any]]:
    return site.in_main(
        f"SELECT kind, data FROM submission_events WHERE submission_id = '{submission['id']}' ORDER BY seq"
    )


async def _heard(main: MainApp, submission: dict[str, Any], count: int) -> bool:
    lines = main.process.log.read_text(errors="replace").splitlines()
    return sum('"event": "callback",' in line and submission["requestId"] in line for line in lines) >= count


async def _true(found: bool) -> bool:
    return found

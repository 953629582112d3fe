"""The grading service: intake, dedup, retries, breakers, dead letters; asked as a foreign main app would ask."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.systems.grading.callbacks_made import PlainGrader
from tests.systems.grading.pair import WRITING, Pair, endpoint, made_engine, opened

from holdfast.core.failure import Category, failure
from holdfast.kernel.hold import force
from holdfast.kernel.operate import cancel
from holdfast_systems.grading.answers import error_of
from holdfast_systems.grading.contract import REQUEST_QUEUE, parse_callback, parse_dead_letter


def request(pair: Pair, *, seconds: float = 1_200, **changes: Any) -> dict[str, Any]:
    """A request from a main app that is not ours: no metadata at all."""
    deadline = datetime.fromtimestamp(pair.service.kernel.now() / 1_000 + seconds, UTC)
    return {
        "requestId": str(uuid.uuid4()),
        "submissionId": "foreign-1",
        "userId": "bao",
        "skill": "writing",
        "attempt": 1,
        "deadlineAt": deadline.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "payload": WRITING,
    } | changes


async def send(pair: Pair, message: dict[str, Any] | bytes, message_id: str | None = None) -> None:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    await pair.deliver(REQUEST_QUEUE, body, message_id)


def kinds(pair: Pair) -> list[str]:
    return [one["kind"] for one in pair.callbacks]


def graded(pair: Pair) -> int:
    grader = pair.engine.grader
    assert isinstance(grader, PlainGrader)
    return grader.graded


@pytest.mark.spec("G4", "G15", "002.8", "002.11", "002.12")
async def test_a_request_is_graded_and_answered(pair: Pair) -> None:
    asked = request(pair, trace={"traceId": "t-1"}, extra="tolerated")
    await send(pair, asked)
    await pair.settle()
    assert kinds(pair) == ["progress", "progress", "completed"]
    assert [one["data"].get("status") for one in pair.callbacks] == ["PROCESSING", "GRADING", None]
    for one in pair.callbacks:
        parse_callback(json.dumps(one).encode())
        assert (one["requestId"], one["submissionId"]) == (asked["requestId"], "foreign-1")
        assert one["trace"] == {"traceId": "t-1"} and one["producer"]["service"] == "grading-service"
    result = pair.callbacks[-1]["data"]["result"]
    assert (result["overallScore"], result["band"], result["reviewRequired"]) == (7.0, "B2", True)
    assert set(result["criteria"]) == {"taskAchievement", "coherence", "lexis", "grammar"}


@pytest.mark.spec("G4", "K11", "000.11", "002.18", "003.10")
async def test_a_duplicate_while_it_runs_is_ignored(pair: Pair) -> None:
    asked = request(pair)
    for _ in range(3):
        await send(pair, asked)
    await send(pair, asked | {"requestId": asked["requestId"].upper()})
    await pair.settle()
    assert (graded(pair), kinds(pair).count("completed")) == (1, 1)
    assert len(await pair.query(pair.service, "SELECT id FROM holdfast_jobs")) == 1
    assert await pair.query(pair.service, "SELECT repeats FROM grading_jobs") == [{"repeats": 3}]


@pytest.mark.spec("G4", "000.11", "002.9", "002.18", "003.10")
async def test_a_duplicate_after_the_result_repeats_it_and_grades_nothing(pair: Pair) -> None:
    asked = request(pair)
    await send(pair, asked, "m-1")
    await pair.settle()
    for _ in range(2):
        await send(pair, asked, "m-1")
    await pair.settle()
    finals = [one for one in pair.callbacks if one["kind"] == "completed"]
    assert (len(finals), graded(pair)) == (3, 1)
    assert len({one["eventId"] for one in finals}) == 3
    assert finals[0]["data"] == finals[1]["data"] == finals[2]["data"]
    assert len(await pair.query(pair.service, "SELECT id FROM holdfast_calls")) == 1, "no second charge"


@pytest.mark.spec("G5", "K7")
@pytest.mark.parametrize("missing", ["submissionId", "userId", "skill", "attempt", "deadlineAt", "payload"])
async def test_an_invalid_request_is_answered_and_laid_down_with_its_original(pair: Pair, missing: str) -> None:
    asked = request(pair)
    del asked[missing]
    for _ in range(3):
        await send(pair, asked, "m-1")
    await pair.settle()
    assert [one["data"]["error"]["type"] for one in pair.callbacks] == ["INVALID_INPUT"]
    error = pair.callbacks[0]["data"]["error"]
    assert (error["code"], error["retryable"]) == ("INVALID_INPUT", False)
    assert len(pair.dead_letters) == 1, "a redelivery is no second letter"
    letter = pair.dead_letters[0]
    parse_dead_letter(json.dumps(letter).encode())
    assert letter["requestId"] == asked["requestId"]
    assert letter["submissionId"] == asked.get("submissionId")
    assert letter["originalMessage"] == asked
    assert {"failureReason", "attemptsMade", "lastError", "timestamp"} <= set(letter)
    order = [one.type for one in pair.sent]
    assert order.index("grading.callback") < order.index("grading.dlq"), "first the answer, then the letter"


@pytest.mark.spec("G5", "000.39")
@pytest.mark.parametrize("body", [b"", b"hello", b"[1]", b"\xff\x00\xfe", b"{" * 5_000, b"null", b"1e999"])
async def test_bytes_that_are_no_request_go_to_the_dead_letters_and_nowhere_else(pair: Pair, body: bytes) -> None:
    await send(pair, body)
    await pair.settle()
    assert pair.callbacks == []
    letter = pair.dead_letters[0]
    assert (letter["requestId"], letter["submissionId"], letter["failureReason"]) == (None, None, "INVALID_INPUT")
    assert letter["originalBytes"] == len(body)


@pytest.mark.spec("G5")
async def test_a_broken_copy_does_not_fail_the_good_request(pair: Pair) -> None:
    asked = request(pair)
    await send(pair, asked)
    await send(pair, asked | {"payload": {}})
    await pair.settle()
    assert kinds(pair).count("error") == 0 and kinds(pair).count("completed") == 1
    assert len(pair.dead_letters) == 1


@pytest.mark.spec("G5")
async def test_a_text_that_no_row_can_hold_never_loops(pair: Pair) -> None:
    await send(pair, request(pair, payload=WRITING | {"text": "a literal \\u0000 typed by hand"}))
    await pair.settle()
    assert kinds(pair)[-1] in ("completed", "error")


@pytest.mark.spec("G5", "K14")
@pytest.mark.parametrize("seconds", [-1, 0])
async def test_a_request_at_or_past_its_deadline_is_failed_at_once(pair: Pair, seconds: float) -> None:
    await send(pair, request(pair, seconds=seconds))
    await pair.settle()
    assert [one["data"]["error"]["code"] for one in pair.callbacks] == ["TIMEOUT"]
    assert graded(pair) == 0 and len(pair.dead_letters) == 1


@pytest.mark.spec("G6", "K4", "000.13", "000.15")
async def test_a_retry_comes_after_two_to_the_n_seconds_and_three_are_made(pair: Pair) -> None:
    pair.service.script(pair.engine.llm, server_errors=9)
    await send(pair, request(pair))
    waits = []
    for _ in range(3):
        await pair.settle()
        job = (await pair.query(pair.service, "SELECT run_at, state FROM holdfast_jobs"))[0]
        assert job["state"] == "queued"
        waits.append((job["run_at"] - pair.service.kernel.now()) / 1_000)
        pair.clock.advance(waits[-1])
    await pair.settle()
    assert all(2**n <= wait <= 2**n + 1 for n, wait in zip((1, 2, 3), waits, strict=True))
    assert kinds(pair) == ["progress", "progress", "error"], "a retry is no progress"
    error = pair.callbacks[-1]["data"]["error"]
    assert (error["type"], error["retryable"]) == ("LLM_FAIL", False)
    letter = pair.dead_letters[0]
    assert (letter["attemptsMade"], letter["errorClass"], letter["stage"]) == (4, "UPSTREAM_INTERNAL", "grade")
    assert WRITING["text"] not in json.dumps(letter), "a dead letter of a job refers to the learner's words only"
    await pair.settle_for(30)
    assert len(pair.dead_letters) == 1, "a dead letter never loops by itself"


@pytest.mark.spec("G6", "K4", "000.14")
@pytest.mark.parametrize(("asked_s", "waited_s"), [(40.0, 40.0), (4_000.0, 300.0)])
async def test_a_429_is_obeyed_within_the_cap(pair: Pair, asked_s: float, waited_s: float) -> None:
    pair.service.script(pair.engine.llm, rate_limited=1, retry_after_s=asked_s)
    await send(pair, request(pair))
    await pair.settle()
    job = (await pair.query(pair.service, "SELECT run_at FROM holdfast_jobs"))[0]
    assert (job["run_at"] - pair.service.kernel.now()) / 1_000 == waited_s
    await pair.settle_for(waited_s + 1, turn_s=waited_s / 10)
    assert kinds(pair)[-1] == "completed"


@pytest.mark.spec("G6", "K14", "000.20")
async def test_a_retry_that_could_only_come_too_late_fails_at_once_with_its_real_cause(pair: Pair) -> None:
    pair.service.script(pair.engine.llm, rate_limited=1, retry_after_s=90)
    await send(pair, request(pair, seconds=60))
    await pair.settle()
    error = pair.callbacks[-1]["data"]["error"]
    assert (error["type"], error["code"], error["retryable"]) == ("LLM_FAIL", "LLM_FAIL", False)
    letter = pair.dead_letters[0]
    assert (letter["failureReason"], letter["errorClass"], letter["attemptsMade"]) == ("LLM_FAIL", "RATE_LIMITED", 1)


@pytest.mark.spec("G6", "000.15", "000.33")
async def test_what_cannot_get_better_is_not_retried(pair: Pair) -> None:
    pair.service.script(pair.engine.llm, refusals=1)
    await send(pair, request(pair))
    await pair.settle()
    assert kinds(pair)[-1] == "error" and pair.dead_letters[0]["attemptsMade"] == 1


@pytest.mark.spec("G7", "K9", "000.30", "000.31")
async def test_an_open_breaker_is_told_once_per_job_and_opening_and_costs_no_attempt(pair: Pair) -> None:
    await force(pair.service.kernel, "llm", open=True, actor="test", reason="drill")
    await send(pair, request(pair))
    await send(pair, request(pair))
    await pair.settle_for(20)
    told = [one for one in pair.callbacks if one["kind"] == "error"]
    assert [one["data"]["error"]["code"] for one in told] == ["CIRCUIT_OPEN"] * 2
    assert all(one["data"]["error"]["retryable"] for one in told)
    assert graded(pair) == 0 and pair.dead_letters == []
    jobs = await pair.query(pair.service, "SELECT state, failures, attempt FROM holdfast_jobs")
    assert [(job["state"], job["failures"], job["attempt"]) for job in jobs] == [("queued", 0, 0)] * 2
    await force(pair.service.kernel, "llm", open=False, actor="test", reason="over")
    await force(pair.service.kernel, "llm", open=True, actor="test", reason="again")
    await pair.settle()
    assert kinds(pair).count("error") == 4, "a new opening is news"
    await force(pair.service.kernel, "llm", open=False, actor="test", reason="over")
    await pair.settle_for(5)
    assert kinds(pair).count("completed") == 2


@pytest.mark.spec("G7", "K9", "000.27", "000.29", "000.30", "000.32")
async def test_the_breaker_opens_above_half_of_twenty_and_closes_after_three_good_trials(tmp_path: Path) -> None:
    by_share = made_engine(tmp_path, GRADING_BREAKER_FAILURES_IN_A_ROW="0")
    async with opened(tmp_path, replace(by_share, client=endpoint())) as pair:
        pair.service.script(pair.engine.llm, server_errors=20)
        for _ in range(25):
            await send(pair, request(pair))
        await pair.settle()
        breaker = (await pair.query(pair.service, "SELECT gate FROM holdfast_breakers WHERE name = 'llm'"))[0]
        assert breaker["gate"] == "open"
        called = len(await pair.query(pair.service, "SELECT id FROM holdfast_calls"))
        await pair.settle_for(25)
        assert len(await pair.query(pair.service, "SELECT id FROM holdfast_calls")) == called, "open: no call"
        told = [
            one["requestId"] for one in pair.callbacks if one["data"].get("error", {}).get("code") == "CIRCUIT_OPEN"
        ]
        assert len(told) == len(set(told)) > 0
        await pair.settle_for(60)
        breaker = (await pair.query(pair.service, "SELECT gate FROM holdfast_breakers WHERE name = 'llm'"))[0]
        assert breaker["gate"] == "closed"
        assert kinds(pair).count("completed") == 25 and pair.dead_letters == []


@pytest.mark.spec("G6", "K14")
async def test_a_job_that_no_worker_can_finish_in_time_is_answered_by_the_sweep(pair: Pair) -> None:
    await force(pair.service.kernel, "llm", open=True, actor="test", reason="drill")
    await send(pair, request(pair, seconds=100))
    await pair.settle()
    pair.clock.advance(101)
    await pair.settle()
    error = pair.callbacks[-1]["data"]["error"]
    assert (error["code"], error["retryable"]) == ("TIMEOUT", False)
    assert pair.dead_letters[0]["failureReason"] == "TIMEOUT"


@pytest.mark.spec("G6", "K3", "000.33")
async def test_a_job_that_kills_three_workers_is_answered_as_dead(sure: Pair) -> None:
    for _ in range(3):
        sure.service.script(sure.engine.llm, crash=1)
    await send(sure, request(sure))
    await sure.settle_for(400, turn_s=20)
    assert sure.service.crashes == 3
    assert sure.callbacks[-1]["data"]["error"]["code"] == "WORKER_LOST"
    assert (sure.dead_letters[0]["attemptsMade"], sure.dead_letters[0]["errorClass"]) == (3, "POISON_JOB")


@pytest.mark.spec("K18")
async def test_a_cancelled_grading_is_answered(pair: Pair) -> None:
    await send(pair, request(pair))
    job = (await pair.query(pair.service, "SELECT id FROM holdfast_jobs"))[0]
    await cancel(pair.service.kernel, str(job["id"]), actor="op")
    await pair.settle()
    assert pair.callbacks[-1]["data"]["error"]["code"] == "CANCELLED" and pair.dead_letters == []


@pytest.mark.spec("K18")
async def test_every_token_is_accounted_for(sure: Pair) -> None:
    await send(sure, request(sure))
    await sure.settle()
    calls = await sure.query(sure.service, "SELECT provider, outcome, units FROM holdfast_calls")
    assert [(one["provider"], one["outcome"]) for one in calls] == [("llm", "ok")] * 2, "two runs of one grading"
    assert [json.loads(one["units"]) for one in calls] == [{"prompt_tokens": 400, "completion_tokens": 100}] * 2


@pytest.mark.spec("G6", "G8")
@pytest.mark.parametrize(
    ("stage", "error_class", "names"),
    [
        ("grade", "NETWORK_TIMEOUT", ("LLM_TIMEOUT", "LLM_TIMEOUT")),
        ("grade", "RATE_LIMITED", ("LLM_FAIL", "LLM_FAIL")),
        ("grade", "CONTENT_REFUSED", ("LLM_FAIL", "LLM_REFUSED")),
        ("grade", "DEADLINE_EXCEEDED", ("TIMEOUT", "TIMEOUT")),
        ("grade", "UPSTREAM_INTERNAL", ("LLM_FAIL", "LLM_FAIL")),
        ("transcribe", "UPSTREAM_INTERNAL", ("STT_FAIL", "STT_FAIL")),
        ("transcribe", "STAGE_TIMEOUT", ("STT_FAIL", "STT_TIMEOUT")),
        ("transcribe", "AUDIO_UNDECODABLE", ("INVALID_INPUT", "AUDIO_UNDECODABLE")),
        ("fetch_audio", "ADDRESS_REFUSED", ("INVALID_INPUT", "AUDIO_UNAVAILABLE")),
        ("fetch_audio", "NETWORK_UNREACHABLE", ("AUDIO_FETCH_FAIL", "AUDIO_FETCH_FAIL")),
        ("transcribe", "POISON_JOB", ("INTERNAL", "WORKER_LOST")),
    ],
)
def test_a_death_has_a_stable_name_and_no_secret(stage: str, error_class: str, names: tuple[str, str]) -> None:
    secret = "sk-" + "a1B2" * 12
    why = failure(Category.UPSTREAM, error_class, f"the key {secret} was refused")
    error = error_of(stage, why)
    assert (error.type, error.code) == names
    assert not error.retryable and secret not in error.message

"""Requests that cannot be read: answered, laid down, and a case that an operator works on; and what letters keep."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from tests.systems.grading.pair import WRITING, Pair
from tests.systems.grading.test_grading_service import graded, kinds, request, send

from holdfast import InvalidInput
from holdfast.kernel import operate
from holdfast.kernel.hands import correct as corrections
from holdfast.stores.statement import Statement
from holdfast_systems.grading import grading_jobs, retention
from holdfast_systems.grading.contract import parse_callback, parse_dead_letter


@pytest.mark.spec("G5", "002.10")
@pytest.mark.parametrize("came", ["not-a-uuid", "", None, 7, "3ac555a2-e20a-11f1-8d02-02fc00000001"])
async def test_a_request_without_a_valid_id_is_answered_by_its_submission(pair: Pair, came: object) -> None:
    asked = request(pair) | {"requestId": came}
    if came is None:
        del asked["requestId"]
    await send(pair, asked)
    await pair.settle()
    (callback,) = pair.callbacks
    parse_callback(json.dumps(callback).encode())
    assert (callback["kind"], callback["submissionId"]) == ("error", "foreign-1")
    assert callback["requestId"] == ("" if came is None else str(came)), "as it came, for its sender to know it by"
    error = callback["data"]["error"]
    assert (error["type"], error["code"], error["retryable"]) == ("INVALID_INPUT", "INVALID_INPUT", False)


@pytest.mark.spec("G5", "002.10", "K15")
async def test_a_broken_request_that_names_a_submission_fails_nobodys_work(pair: Pair) -> None:
    one = await pair.submit()
    before = await pair.show(one.id)
    for forged in ({"submissionId": one.id}, {"submissionId": one.id, "requestId": "mine"}):
        await send(pair, forged)
    await pair.service.tick()
    assert [callback["submissionId"] for callback in pair.callbacks] == [one.id, one.id]
    assert await pair.show(one.id) == before, "only the request id proves an answer"
    kept = await pair.query(pair.main, "SELECT outcome, submission_id FROM processed_callbacks")
    assert [(row["outcome"], row["submission_id"]) for row in kept] == [("mismatched", one.id)] * 2
    await pair.settle()
    assert (await pair.show(one.id)).state.status == "REVIEW_REQUIRED"


@pytest.mark.spec("G5", "K7", "000.16")
async def test_a_letter_and_its_case_name_the_ids_as_they_came(pair: Pair) -> None:
    await send(pair, request(pair) | {"requestId": "R-17", "skill": "dancing"})
    await pair.settle()
    (letter,) = pair.dead_letters
    assert (letter["requestId"], letter["submissionId"]) == ("R-17", "foreign-1")
    (case,) = await pair.query(pair.service, "SELECT * FROM holdfast_dead_letters")
    assert (case["kind"], case["error_class"], case["request_id"]) == ("grading.refused", "INVALID_INPUT", "R-17")
    context = json.loads(case["sanitized_context"])
    assert (context["requestId"], context["submissionId"]) == ("R-17", "foreign-1")
    assert WRITING["text"] not in json.dumps({name: str(value) for name, value in case.items()})


@pytest.mark.spec("G6", "K7", "000.16")
async def test_the_case_of_a_failed_grading_names_its_request_and_submission(pair: Pair) -> None:
    pair.service.script(pair.engine.llm, refusals=1)
    asked = request(pair)
    await send(pair, asked)
    await pair.settle()
    (case,) = await pair.query(pair.service, "SELECT * FROM holdfast_dead_letters")
    assert case["request_id"] == asked["requestId"]
    assert json.loads(case["sanitized_context"])["submissionId"] == "foreign-1"


@pytest.mark.spec("K8", "004.13")
async def test_the_payload_of_a_failed_request_is_corrected_and_what_names_it_is_not(pair: Pair) -> None:
    pair.service.script(pair.engine.llm, refusals=1)
    asked = request(pair)
    await send(pair, asked)
    await pair.settle()
    (case,) = await pair.service.dead_letters()
    kernel = pair.service.kernel
    later = asked["deadlineAt"].replace("20", "21", 1)
    named = {"request_id": str(uuid.uuid4()), "submission_id": "other", "user_id": "eve", "attempt": 2}
    for field, value in (named | {"deadline_at": later}).items():
        with pytest.raises(InvalidInput, match="Only the payload"):
            await corrections.correct(kernel, case["id"], actor="olga", values={field: value})
    await corrections.correct(kernel, case["id"], actor="olga", values={"payload.task_type": "email"})
    await operate.replay(kernel, case["id"], actor="olga")
    await pair.settle()
    assert pair.callbacks[-1]["kind"] == "completed"


@pytest.mark.spec("G5", "K8", "000.17")
async def test_a_refused_request_is_accepted_by_a_replay_once_it_can_be_read(pair: Pair) -> None:
    asked = request(pair)
    await send(pair, asked | {"attempt": "one"})
    await pair.settle()
    (case,) = await pair.service.dead_letters()
    await operate.triage(pair.service.kernel, case["id"], cause="data", actor="olga")
    await operate.remediate(pair.service.kernel, case["id"], evidence="the sender was mended", actor="olga")
    await correct(pair, case["job_id"], json.dumps(asked))
    await operate.replay(pair.service.kernel, case["id"], actor="olga")
    await pair.settle()
    assert graded(pair) == 1 and kinds(pair)[-1] == "completed"
    assert pair.callbacks[-1]["requestId"] == asked["requestId"]


CORRECT = Statement(
    "correct",
    "UPDATE holdfast_jobs SET payload = :payload WHERE id = :id",
    "UPDATE holdfast_jobs SET payload = $1 WHERE id = CAST($2 AS uuid)",
    ("payload", "id"),
)


async def correct(pair: Pair, job_id: str, original: str) -> None:
    """What a correction of the job's input does to its row."""
    (row,) = await pair.query(pair.service, f"SELECT payload FROM holdfast_jobs WHERE id = '{job_id}'")
    payload = json.dumps(json.loads(row["payload"]) | {"original": original})
    async with pair.service.kernel.store.transaction() as tx:
        await tx.rows(CORRECT, payload=payload, id=job_id)


@pytest.mark.spec("G5", "000.39")
@pytest.mark.parametrize("body", [b"\xff\x00\xfe", b"hello", b"x" * 2_000_000, b'{"requestId": "a\\u0000b"}'])
async def test_bytes_of_any_kind_become_a_case_or_a_letter_alone(pair: Pair, body: bytes) -> None:
    await send(pair, body, "m-1")
    await send(pair, body, "m-1")
    await pair.settle()
    assert len(pair.dead_letters) == 1 and len(await pair.service.dead_letters()) <= 1
    assert {row["state"] for row in await pair.query(pair.service, "SELECT state FROM holdfast_jobs")} <= {"dead"}


@pytest.mark.spec("G6", "002.21")
@pytest.mark.parametrize("why", ["late", "failed"])
async def test_the_original_of_a_letter_outlives_its_request(pair: Pair, why: str) -> None:
    if why == "failed":
        pair.service.script(pair.engine.llm, refusals=1)
    asked = request(pair, seconds=600 if why == "failed" else -1)
    await send(pair, asked)
    await pair.settle()
    (letter,) = pair.dead_letters
    parse_dead_letter(json.dumps(letter).encode())
    assert letter["originalMessage"]["reference"] == f"grading_originals/{asked['requestId']}"
    assert WRITING["text"] not in json.dumps(letter), "a letter refers to the learner's words only"
    for case in await pair.service.dead_letters():
        await operate.triage(pair.service.kernel, case["id"], cause="data", actor="olga")
    pair.clock.advance(200 * 86_400)
    assert await retention.prune_originals(pair.service.kernel, 365.0) == 0
    await retention.prune_requests(pair.service.kernel, 90.0)
    kept = await original(pair, asked["requestId"])
    assert kept is not None and {name: kept[name] for name in asked} == asked
    pair.clock.advance(200 * 86_400)
    assert await retention.prune_originals(pair.service.kernel, 0) == 0, "zero keeps them for ever"
    assert await retention.prune_originals(pair.service.kernel, 365.0) == 1
    assert await original(pair, asked["requestId"]) is None


async def original(pair: Pair, request_id: str) -> dict[str, Any] | None:
    async with pair.service.kernel.store.reading() as tx:
        body = await grading_jobs.original(tx, request_id)
    return None if body is None else json.loads(body)

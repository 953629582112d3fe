"""A failed submission is submitted again: the next attempt has its own request and deadline, and the history stays."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.systems.grading.callbacks_made import completed, error, progress
from tests.systems.grading.pair import Pair
from tests.systems.grading.test_main_http import Client, client, post  # noqa: F401

from holdfast_systems.grading import retention
from holdfast_systems.grading.contract import SLA_MS


async def resubmit(who: httpx.AsyncClient, submission_id: str, key: str | None = None) -> httpx.Response:
    headers = {"Idempotency-Key": key or str(uuid.uuid4())}
    return await who.post(f"/api/submissions/{submission_id}/resubmit", headers=headers)


async def failed(pair: Pair, code: str = "LLM_FAIL") -> Any:
    one = await pair.submit()
    await pair.call_back(error(one.request_id, one.id, code))
    return one


@pytest.mark.spec("G1", "G2", "002.6")
async def test_a_learner_submits_failed_work_again(pair: Pair, client: Client) -> None:  # noqa: F811
    one = await failed(pair)
    pair.clock.advance(60)
    answer = await resubmit(client(), one.id)
    body = answer.json()
    assert (answer.status_code, body["status"], body["attempt"], body["isLate"]) == (201, "PENDING", 2, False)
    assert body["requestId"] != one.request_id and uuid.UUID(body["requestId"]).version == 4
    stored = await pair.show(one.id)
    assert stored.state.deadline_at == stored.updated_at + SLA_MS["writing"] > one.state.deadline_at
    shown = (await client().get(f"/api/submissions/{one.id}")).json()
    (past,) = shown["attempts"]
    assert (past["attempt"], past["requestId"], past["failureReason"]) == (1, one.request_id, "LLM_FAIL")
    assert (await client("bob").get(f"/api/submissions/{one.id}")).status_code == 404
    await pair.settle()
    request = pair.requests[-1]
    assert (request["attempt"], request["requestId"], request["submissionId"]) == (2, body["requestId"], one.id)
    assert request["payload"] == pair.requests[0]["payload"]
    assert (await pair.show(one.id)).state.status == "REVIEW_REQUIRED", "the second attempt was graded"
    (audited,) = await pair.query(pair.main, "SELECT actor, action, data FROM holdfast_audit")
    assert (audited["actor"], audited["action"]) == ("ann", "submission.resubmitted")
    assert json.loads(audited["data"])["supersedes"] == one.request_id


@pytest.mark.spec("K13", "002.6")
async def test_only_its_owner_only_what_failed_and_only_once_per_key(pair: Pair, client: Client) -> None:  # noqa: F811
    one = await pair.submit()
    live = await resubmit(client(), one.id)
    assert (live.status_code, live.json()["code"]) == (409, "NOT_FAILED")
    await pair.call_back(error(one.request_id, one.id, "LLM_FAIL"))
    assert (await resubmit(client("bob"), one.id)).status_code == 404
    assert (await client().post(f"/api/submissions/{one.id}/resubmit")).status_code == 400, "a key is required"
    key = str(uuid.uuid4())
    answers = await asyncio.gather(*[resubmit(client(), one.id, key) for _ in range(4)])
    assert {answer.status_code for answer in answers} == {201}
    assert {answer.json()["requestId"] for answer in answers} == {(await pair.show(one.id)).request_id}
    assert (await pair.show(one.id)).attempt == 2
    assert (await resubmit(client(), one.id)).status_code == 409, "the second attempt has not failed"


@pytest.mark.spec("K13", "002.6")
async def test_of_two_at_once_one_begins_the_next_attempt(pair: Pair, client: Client) -> None:  # noqa: F811
    one = await failed(pair)
    operator = client("olga", "operator").post(f"/api/ops/submissions/{one.id}/resubmit")
    answers = await asyncio.gather(resubmit(client(), one.id), operator)
    assert sorted(answer.status_code for answer in answers) == [201, 409]
    assert (await pair.show(one.id)).attempt == 2
    assert len(await pair.query(pair.main, "SELECT attempt FROM submission_attempts")) == 1


@pytest.mark.spec("G9", "G12", "002.6")
async def test_what_comes_for_an_older_request_is_kept_and_changes_nothing(pair: Pair, client: Client) -> None:  # noqa: F811
    one = await failed(pair)
    await resubmit(client(), one.id)
    before = await pair.show(one.id)
    pair.clock.advance(1)
    await pair.call_back(progress(one.request_id, one.id, "GRADING", 0.9))
    await pair.call_back(error(one.request_id, one.id, "STT_FAIL"))
    await pair.call_back(completed(one.request_id, one.id))
    assert await pair.show(one.id) == before
    pair.clock.advance(SLA_MS["writing"] / 1_000 + 1)
    whole = (await client("olga", "operator").get(f"/api/ops/submissions/{one.id}")).json()
    (past,) = whole["attempts"]
    assert (past["aiResult"]["overallScore"], past["isLate"], past["failureReason"]) == (7.0, False, "LLM_FAIL")
    assert [callback["outcome"] for callback in whole["callbacks"]] == ["applied"] + ["superseded"] * 3


@pytest.mark.spec("G12", "000.23", "002.6")
async def test_a_late_result_of_an_older_request_is_late_by_its_own_deadline(pair: Pair, client: Client) -> None:  # noqa: F811
    one = await failed(pair)
    pair.clock.advance(SLA_MS["writing"] / 1_000 + 1)
    await resubmit(client(), one.id)
    await pair.call_back(completed(one.request_id, one.id))
    await pair.call_back(completed(one.request_id, one.id))
    whole = (await client("olga", "operator").get(f"/api/ops/submissions/{one.id}")).json()
    assert whole["status"] == "PENDING" and whole["attempts"][0]["isLate"] and not whole["isLate"]


@pytest.mark.spec("G12", "000.17", "002.6")
async def test_after_a_timeout_the_next_attempt_ends_well(sure: Pair) -> None:
    from holdfast_systems.grading import attempts, submissions
    from holdfast_systems.grading.settings import MainSettings

    one = await sure.submit()
    sure.clock.advance(SLA_MS["writing"] / 1_000 + 1)
    await sure.settle()
    assert (await sure.show(one.id)).state.failure_reason == "TIMEOUT"
    async with sure.main.kernel.store.transaction() as tx:
        stored = await submissions.lock(tx, one.id)
        assert stored is not None
        await attempts.resubmit(sure.main.kernel, tx, MainSettings(), stored, "olga")
    await sure.settle()
    state = (await sure.show(one.id)).state
    assert (state.status, state.failure_reason, state.is_late) == ("COMPLETED", None, False)
    told = [(name, data["attempt"]) for name, data in await sure.events(one.id) if name != "grading.progress"]
    assert told == [("grading.failed", 1), ("grading.completed", 2)]


@pytest.mark.spec("G13", "002.6")
async def test_a_stream_shows_the_failure_and_goes_on_to_the_next_end(pair: Pair, client: Client) -> None:  # noqa: F811
    one = await failed(pair)
    first_end = [event async for event in lines(client(), one.id)]
    assert first_end == ["grading.failed"]
    await resubmit(client(), one.id)
    again = await pair.show(one.id)
    await pair.call_back(completed(again.request_id, one.id))
    seen = [event async for event in lines(client(), one.id)]
    assert seen == ["grading.failed", "grading.progress", "grading.completed"]


async def lines(who: httpx.AsyncClient, submission_id: str) -> Any:
    async with who.stream("GET", f"/api/submissions/{submission_id}/events") as answer:
        async for line in answer.aiter_lines():
            if line.startswith("event: "):
                yield line.removeprefix("event: ")


@pytest.mark.spec("K18", "002.6")
async def test_retention_forgets_the_history_with_its_submission(pair: Pair, client: Client) -> None:  # noqa: F811
    one = await failed(pair)
    await resubmit(client(), one.id)
    again = await pair.show(one.id)
    await pair.call_back(error(again.request_id, one.id, "LLM_FAIL"))
    pair.clock.advance(2 * 86_400)
    while await retention.prune_submissions(pair.main.kernel, 1.0):
        pass
    for table in ("submissions", "submission_attempts", "processed_callbacks", "submission_events"):
        assert await pair.query(pair.main, f"SELECT * FROM {table}") == []


@pytest.mark.spec("003.4")
async def test_the_sources_own_path_is_served_too(pair: Pair, client: Client, tmp_path: Path) -> None:  # noqa: F811
    key = str(uuid.uuid4())
    body = {"skill": "writing", "payload": {"text": "Dear Ann,", "taskType": "email", "questionId": "q"}}
    made = await client().post("/submissions", json=body, headers={"Idempotency-Key": key})
    assert made.status_code == 201
    again = await client().post("/api/submissions", json=body, headers={"Idempotency-Key": key})
    assert again.json() == made.json() and again.headers["idempotency-replayed"] == "true", "one endpoint, two names"
    submission_id = made.json()["id"]
    assert (await client().get(f"/submissions/{submission_id}")).json() == made.json()
    assert (await client().get("/submissions")).json()["items"] == [made.json()]
    assert (await client("bob").get(f"/submissions/{submission_id}")).status_code == 404
    assert (await client().post("/submissions", json=body)).status_code == 400
    assert (await client().get("/submissions", headers={"Authorization": ""})).status_code == 401


@pytest.mark.spec("002.7")
async def test_a_request_carries_its_message_id_and_trace_and_the_callbacks_follow_it(pair: Pair) -> None:
    await pair.submit()
    await pair.settle()
    (sent,) = [message for message in pair.sent if message.destination.endswith("grading.request")]
    request = json.loads(sent.body)
    assert request["messageId"] == sent.id and uuid.UUID(request["messageId"]).version == 4
    trace_id = request["trace"]["traceId"]
    assert len(trace_id) == 32 and int(trace_id, 16)
    assert pair.callbacks and all(callback["trace"]["traceId"] == trace_id for callback in pair.callbacks)
    assert all(uuid.UUID(callback["messageId"]).version == 4 for callback in pair.callbacks)

"""The main app's database side: submissions, callbacks, deadlines."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.systems.grading.callbacks_made import completed, error, progress, result
from tests.systems.grading.pair import SPEAKING, WRITING, Pair

from holdfast import InvalidInput
from holdfast.kernel.observe.watch import LogWatch
from holdfast_systems.grading.contract import CALLBACK_QUEUE, SLA_MS
from holdfast_systems.grading.main_app import submit
from holdfast_systems.grading.reasons import ADVICE, OTHER, REASONS, advice, label
from holdfast_systems.grading.settings import MainSettings
from holdfast_systems.grading.sweep import BATCH, sweep_timeouts
from holdfast_systems.grading.transitions import Status


async def rows(pair: Pair, text: str) -> list[dict[str, Any]]:
    """What a query finds in the main app's database."""
    return await pair.query(pair.main, text)


@pytest.mark.spec("G1", "K1", "000.1", "002.4")
async def test_a_submission_and_its_request_are_one_write(pair: Pair) -> None:
    stored = await pair.submit()
    assert (stored.state.status, stored.user_id, stored.payload) == ("PENDING", "ann", WRITING)
    waiting = await rows(pair, "SELECT aggregate_id, destination, payload, status FROM holdfast_outbox")
    assert [(row["aggregate_id"], row["destination"], row["status"]) for row in waiting] == [
        (stored.id, "vstep.exchange/grading.request", "pending")
    ]
    request = json.loads(str(waiting[0]["payload"]))
    assert (request["requestId"], request["submissionId"]) == (stored.request_id, stored.id)
    assert (request["skill"], request["payload"], request["attempt"]) == ("writing", WRITING, 1)


@pytest.mark.spec("K8")
async def test_a_submission_wakes_the_relay(pair: Pair) -> None:
    listener = pair.main.kernel.store.listen("outbox")
    await pair.submit()
    assert await listener.wait(30), "else it would be late by a poll"


@pytest.mark.spec("G1", "K1", "000.1")
async def test_a_rollback_leaves_neither(pair: Pair) -> None:
    with pytest.raises(ZeroDivisionError):
        async with pair.main.kernel.store.transaction() as tx:
            await submit(pair.main.kernel, tx, MainSettings(), "ann", "writing", WRITING)
            raise ZeroDivisionError
    assert await rows(pair, "SELECT id FROM submissions") == [] == await rows(pair, "SELECT id FROM holdfast_outbox")


@pytest.mark.spec("G2", "K14", "000.18")
@pytest.mark.parametrize(("skill", "payload"), [("writing", WRITING), ("speaking", SPEAKING)])
async def test_the_deadline_is_the_creation_plus_the_sla(pair: Pair, skill: str, payload: dict[str, object]) -> None:
    for _ in range(5):
        pair.clock.advance(0.001)
        stored = await pair.submit(skill, dict(payload))
        assert stored.state.deadline_at == stored.created_at + SLA_MS[skill]


@pytest.mark.spec("G1")
@pytest.mark.parametrize(
    "payload",
    [
        {"text": "x", "taskType": "poem", "questionId": "q"},
        {"text": "x", "taskType": "essay"},
        {"text": 5, "taskType": "essay", "questionId": "q"},
        {"text": "a\x00b", "taskType": "essay", "questionId": "q"},
        {"text": "\ud800", "taskType": "essay", "questionId": "q"},
        {"text": "x" * 1_100_000, "taskType": "essay", "questionId": "q"},
    ],
    ids=["enum", "missing", "type", "nul", "surrogate", "huge"],
)
async def test_what_the_contract_refuses_is_refused_before_it_is_stored(pair: Pair, payload: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        await pair.submit("writing", payload)
    assert await rows(pair, "SELECT id FROM submissions") == []


@pytest.mark.spec("G9", "K11", "002.19", "003.5", "003.6", "003.8")
async def test_a_callback_is_applied_once_and_told_in_order(pair: Pair) -> None:
    one = await pair.submit()
    news = progress(one.request_id, one.id, "ANALYZING", 0.4)
    for _ in range(3):
        await pair.call_back(news)
    done = completed(one.request_id, one.id)
    await pair.call_back(done)
    await pair.call_back(progress(one.request_id, one.id, "GRADING", 0.9))
    assert [name for name, _ in await pair.events(one.id)] == ["grading.progress", "grading.completed"]
    stored = await pair.show(one.id)
    assert (stored.state.status, stored.state.mode) == ("COMPLETED", "ai")
    assert stored.state.final_result == stored.state.ai_result
    told = await rows(pair, "SELECT event_id, seq FROM submission_events ORDER BY seq")
    assert [row["event_id"] for row in told] == [news.event_id, done.event_id], "the SSE id is the eventId"
    processed = await rows(pair, "SELECT outcome FROM processed_callbacks ORDER BY processed_at, outcome")
    assert sorted(str(row["outcome"]) for row in processed) == ["applied", "applied", "ignored"]


@pytest.mark.spec("G9", "002.19", "002.23")
async def test_a_second_result_under_another_event_id_changes_nothing(pair: Pair) -> None:
    one = await pair.submit()
    await pair.call_back(completed(one.request_id, one.id, result(7.0)))
    before = await pair.show(one.id)
    await pair.call_back(completed(one.request_id.upper(), one.id, result(3.0)))
    await pair.call_back(error(one.request_id, one.id))
    assert await pair.show(one.id) == before
    assert len(await pair.events(one.id)) == 1


@pytest.mark.spec("G8", "G9", "002.16")
async def test_errors_end_it_only_if_they_are_final(pair: Pair) -> None:
    one = await pair.submit()
    await pair.call_back(error(one.request_id, one.id, "CIRCUIT_OPEN", retryable=True))
    assert (await pair.show(one.id)).state.status == "PROCESSING"
    await pair.call_back(error(one.request_id, one.id, "LLM_TIMEOUT"))
    stored = await pair.show(one.id)
    assert (stored.state.status, stored.state.failure_reason) == ("FAILED", "LLM_TIMEOUT")
    assert [name for name, _ in await pair.events(one.id)] == ["grading.progress", "grading.failed"]


@pytest.mark.spec("G9")
@pytest.mark.parametrize(
    "body", [b"", b"not json", b"[]", b'{"kind":"completed"}', b"\xff\xfe", b'{"requestId":' * 40, b"null"]
)
async def test_what_is_no_callback_is_written_down_and_acked(pair: Pair, body: bytes) -> None:
    for _ in range(2):
        await pair.deliver(CALLBACK_QUEUE, body)
    refused = await rows(pair, "SELECT reason, times, size_bytes FROM refused_callbacks")
    assert [(row["times"], row["size_bytes"]) for row in refused] == [(2, len(body))]
    assert await rows(pair, "SELECT event_id FROM processed_callbacks") == []


class Refused(LogWatch):
    """Keeps what is logged of refused callbacks."""

    def __init__(self) -> None:
        super().__init__()
        self.logged: list[object] = []

    def log(self, event: str, **fields: object) -> None:
        if event == "callback.refused":
            self.logged.append(fields["request_id"])


@pytest.mark.spec("G9")
async def test_a_refused_callback_is_one_line_of_the_log_that_names_its_request(pair: Pair) -> None:
    watch = pair.main.kernel.watch = Refused()
    await pair.deliver(CALLBACK_QUEUE, b'{"kind":"completed","requestId":"7d3c0b6e-5f0a-4b0e-8a52-3f1f0e6f7c11"}')
    assert watch.logged == ["7d3c0b6e-5f0a-4b0e-8a52-3f1f0e6f7c11"]


@pytest.mark.spec("G9")
async def test_a_callback_of_somebody_else_touches_nothing(pair: Pair) -> None:
    one, other = await pair.submit(), await pair.submit()
    await pair.call_back(completed("6f1a7f5e-7c55-4f0e-9d3a-0a4d4b7c9a10", one.id))
    await pair.call_back(completed(one.request_id, other.id))
    await pair.call_back(completed("6f1a7f5e-7c55-4f0e-9d3a-0a4d4b7c9a10", "nobody's"))
    assert [(await pair.show(each.id)).state.status for each in (one, other)] == ["PENDING", "PENDING"]
    outcomes = await rows(pair, "SELECT outcome FROM processed_callbacks")
    assert sorted(str(row["outcome"]) for row in outcomes) == ["mismatched", "mismatched", "unknown"]


@pytest.mark.spec("G9", "K11", "003.5")
async def test_a_crash_before_the_commit_leaves_no_trace_and_the_redelivery_works(sure: Pair) -> None:
    one = await sure.submit()
    done = completed(one.request_id, one.id)
    sure.main.crash_at("intake.before_commit")
    await sure.main._as_a_process(sure.deliver(CALLBACK_QUEUE, done.body()))
    assert sure.main.crashes == 1 and (await sure.show(one.id)).state.status == "PENDING"
    sure.main.crash_at("intake.after_commit")
    await sure.main._as_a_process(sure.deliver(CALLBACK_QUEUE, done.body()))
    assert sure.main.crashes == 2
    await sure.deliver(CALLBACK_QUEUE, done.body())
    assert (await sure.show(one.id)).state.status == "COMPLETED"
    assert len(await sure.events(one.id)) == 1


@pytest.mark.spec("G12", "K14", "000.25")
async def test_the_sweep_fails_what_is_past_its_deadline_and_nothing_else(pair: Pair) -> None:
    pending, running, reviewed, done = [await pair.submit() for _ in range(4)]
    await pair.call_back(progress(running.request_id, running.id))
    await pair.call_back(completed(reviewed.request_id, reviewed.id, result(6.0, 60)))
    await pair.call_back(completed(done.request_id, done.id))
    pair.clock.advance(SLA_MS["writing"] / 1_000 - 5)
    young = await pair.submit()
    pair.clock.advance(10)
    assert await sweep_timeouts(pair.main.kernel) == 2
    assert await sweep_timeouts(pair.main.kernel) == 0
    expected: dict[str, tuple[Status, str | None]] = {
        pending.id: ("FAILED", "TIMEOUT"),
        running.id: ("FAILED", "TIMEOUT"),
        reviewed.id: ("REVIEW_REQUIRED", None),
        done.id: ("COMPLETED", None),
        young.id: ("PENDING", None),
    }
    found = {key: (await pair.show(key)).state for key in expected}
    assert {key: (state.status, state.failure_reason) for key, state in found.items()} == expected
    assert (await pair.events(pending.id))[-1][0] == "grading.failed"


@pytest.mark.spec("G12", "K14", "000.21", "000.24", "003.7")
async def test_a_late_result_is_stored_and_the_status_stays(pair: Pair) -> None:
    one = await pair.submit()
    pair.clock.advance(SLA_MS["writing"] / 1_000 + 1)
    await sweep_timeouts(pair.main.kernel)
    await pair.call_back(completed(one.request_id, one.id))
    state = (await pair.show(one.id)).state
    assert (state.status, state.failure_reason, state.is_late) == ("FAILED", "TIMEOUT", True)
    assert state.ai_result is not None and state.final_result is None
    assert [name for name, _ in await pair.events(one.id)] == ["grading.failed"]


@pytest.mark.spec("G12", "K14")
async def test_a_late_result_before_any_sweep_ends_the_same(pair: Pair) -> None:
    one = await pair.submit()
    pair.clock.advance(SLA_MS["writing"] / 1_000 + 1)
    await pair.call_back(completed(one.request_id, one.id))
    await sweep_timeouts(pair.main.kernel)
    state = (await pair.show(one.id)).state
    assert (state.status, state.failure_reason, state.is_late) == ("FAILED", "TIMEOUT", True)
    assert [name for name, _ in await pair.events(one.id)] == ["grading.failed"]


@pytest.mark.slow
@pytest.mark.spec("G12", "K14", "000.26")
async def test_many_sweeps_at_once_fail_each_submission_once(pair: Pair) -> None:
    mine = [await pair.submit() for _ in range(BATCH + 20)]
    pair.clock.advance(SLA_MS["writing"] / 1_000 + 1)
    swept = await asyncio.gather(*[sweep_timeouts(pair.main.kernel) for _ in range(6)])
    assert sum(swept) + await sweep_timeouts(pair.main.kernel) == len(mine)
    told = await rows(pair, "SELECT submission_id FROM submission_events")
    assert len(told) == len(mine) == len({str(row["submission_id"]) for row in told})


@pytest.mark.spec("G10")
def test_every_failure_of_a_recording_tells_the_learner_what_to_do_and_no_other_failure_does() -> None:
    audio = [reason for reason in REASONS if reason.startswith("AUDIO_")]
    assert [advice(reason) for reason in audio] == [ADVICE[reason] for reason in audio]
    assert advice("AUDIO_OF_ANOTHER_SERVICE") == "Your recording cannot be used. Please record your answer again."
    assert [advice(reason) for reason in (None, "", "LLM_FAIL", "TIMEOUT", "OTHER")] == [None] * 5


@pytest.mark.spec("K17")
def test_a_metric_has_a_label_for_each_known_reason_and_one_for_all_others() -> None:
    """Else whoever answers could make as many series as it likes."""
    assert [label(reason) for reason in (None, *REASONS)] == ["", *REASONS]
    assert [label(reason) for reason in ("", "NOBODY_KNOWS_THIS", "llm_fail")] == [OTHER] * 3

"""What grading forgets, and what it keeps however old it is; on both databases."""

from __future__ import annotations

import pytest
from tests.systems.grading.callbacks_made import completed, error, result
from tests.systems.grading.pair import WRITING, Pair

from holdfast_systems.grading import retention
from holdfast_systems.grading.contract import CALLBACK_QUEUE
from holdfast_systems.grading.retention import prune_requests, prune_submissions

DAY_S = 86_400.0


async def counts(pair: Pair, *tables: str) -> list[int]:
    service = {"grading_jobs"}
    asked = [(pair.service if table in service else pair.main, table) for table in tables]
    return [(await pair.query(world, f"SELECT COUNT(*) AS n FROM {table}"))[0]["n"] for world, table in asked]


MAIN = ("submissions", "submission_events", "processed_callbacks", "refused_callbacks")


@pytest.mark.spec("K18", "G9")
async def test_a_finished_submission_goes_with_all_that_belongs_to_it(pair: Pair) -> None:
    one, failed = await pair.submit(), await pair.submit()
    await pair.call_back(completed(one.request_id, one.id))
    await pair.call_back(error(failed.request_id, failed.id))
    await pair.deliver(CALLBACK_QUEUE, b"no callback at all")
    pair.clock.advance(29 * DAY_S)
    assert await prune_submissions(pair.main.kernel, 30) == 0 and await counts(pair, *MAIN) == [2, 2, 2, 1]
    pair.clock.advance(2 * DAY_S)
    assert await prune_submissions(pair.main.kernel, 0) == 0, "zero days keep everything"
    while await prune_submissions(pair.main.kernel, 30):
        pass
    assert await counts(pair, *MAIN) == [0, 0, 0, 0]


@pytest.mark.spec("K18", "G10")
async def test_what_waits_for_an_instructor_is_kept_however_old_it_is(pair: Pair) -> None:
    waiting, live = await pair.submit(), await pair.submit()
    await pair.call_back(completed(waiting.request_id, waiting.id, result(confidence=60)))
    pair.clock.advance(3_650 * DAY_S)
    assert await prune_submissions(pair.main.kernel, 30) == 0
    assert [(await pair.show(one.id)).state.status for one in (waiting, live)] == ["REVIEW_REQUIRED", "PENDING"]
    assert await counts(pair, *MAIN) == [2, 1, 1, 0], "the event ids of what is kept are kept too"


@pytest.mark.spec("K18")
async def test_no_batch_is_larger_than_its_bound(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 3)
    for _ in range(7):
        one = await pair.submit()
        await pair.call_back(completed(one.request_id, one.id))
    pair.clock.advance(31 * DAY_S)
    left = []
    while await prune_submissions(pair.main.kernel, 30):
        left.append((await counts(pair, "submissions"))[0])
    assert left[:3] == [4, 1, 0]


@pytest.mark.spec("K18", "G4")
async def test_an_answered_request_goes_and_a_duplicate_after_that_is_refused_unpaid(pair: Pair) -> None:
    await pair.submit()
    await pair.settle()
    graded = pair.engine.grader.graded  # type: ignore[attr-defined]
    pair.clock.advance(89 * DAY_S)
    assert await prune_requests(pair.service.kernel, 90) == 0 and await counts(pair, "grading_jobs") == [1]
    pair.clock.advance(2 * DAY_S)
    assert await prune_requests(pair.service.kernel, 90) == 1 and await counts(pair, "grading_jobs") == [0]
    await pair.transport.publish(pair.sent[0])
    await pair.settle()
    assert pair.callbacks[-1]["data"]["error"]["code"] == "TIMEOUT"
    assert pair.engine.grader.graded == graded == 1  # type: ignore[attr-defined]


@pytest.mark.spec("K18", "K8")
async def test_a_request_whose_dead_letter_is_open_is_kept_for_its_replay(pair: Pair) -> None:
    pair.service.script(pair.engine.llm, refusals=1)
    await pair.submit(payload=WRITING)
    await pair.settle()
    assert pair.callbacks[-1]["kind"] == "error"
    pair.clock.advance(3_650 * DAY_S)
    assert await prune_requests(pair.service.kernel, 90) == 0
    assert await counts(pair, "grading_jobs") == [1]


@pytest.mark.spec("K18")
async def test_retention_is_a_step_of_both_services(pair: Pair) -> None:
    steps = {
        step.name for world in (pair.main, pair.service) for app in world.kernel.registry.apps for step in app.steps
    }
    assert {"grading-main.prune_submissions", "grading-service.prune_requests"} <= steps

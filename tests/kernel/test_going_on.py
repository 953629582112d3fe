"""A worker that has brought a job through a stage keeps it for the next one, in one write, behind the same fences."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import App, Context, Job, Next, Provider, stage
from holdfast.core.failure import Category
from holdfast.core.job import Priority
from holdfast.core.outcome import Failed
from holdfast.engines.worker import Worker
from holdfast.errors import CallError
from holdfast.kernel.attempt import run_attempt
from holdfast.kernel.go_on import GOES_ON_MS, Look, may_go_on
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.operate import cancel
from holdfast.kernel.settle import Ending, LeasedJob
from holdfast.kernel.submit import submit
from holdfast.kernel.turn import turn
from holdfast.operator.audit import audit
from holdfast.tables import events, providers, rollups
from holdfast.testing import HandClock
from tests.kernel.places import Place, close_all, rows

app = App("going")
api = Provider("going.api")


@app.job()
class Walk(Job[str]):
    @stage()
    async def first(self, ctx: Context, text: str) -> str:
        return f"{text} é"

    @stage(provider=api)
    async def second(self, ctx: Context, text: str, first: str) -> str:
        return first + "!"

    @stage()
    async def third(self, ctx: Context, text: str, first: str, second: str) -> str:
        return f"{first} {second} {ctx.attempt}"


class Walker:
    """A worker's moves, one at a time."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    async def take(self) -> LeasedJob:
        (taken,), _ = await turn(self.kernel, "w1", ["going"], [], 5)
        return taken

    async def run(self, taken: LeasedJob) -> Ending:
        ended = await run_attempt(self.kernel, taken)
        assert ended is not None
        return ended

    async def settle(self, *ended: Ending, goes_on: bool = True) -> list[LeasedJob]:
        taken, _ = await turn(self.kernel, "w1", ["going"], ended, 0, goes_on=goes_on)
        return taken

    async def row(self) -> dict[str, Any]:
        (row,) = await rows(self.kernel.store, "SELECT * FROM holdfast_jobs")
        return row

    async def story(self) -> list[tuple[str, int]]:
        text = "SELECT type, attempt FROM holdfast_every_event ORDER BY seq, part"
        return [(row["type"], row["attempt"]) for row in await rows(self.kernel.store, text)]


@pytest.fixture
async def walker(place: Place, clock: HandClock) -> Any:
    made = Walker(place.kernel(app, clock=clock))
    await submit(made.kernel, Walk, "x")
    yield made
    await close_all(place)


@pytest.mark.spec("K6", "K2")
async def test_the_next_stage_is_leased_with_the_end_of_the_one_before(walker: Walker, clock: HandClock) -> None:
    taken = await walker.take()
    clock.advance(0.4)
    (second,) = await walker.settle(await walker.run(taken))
    row = await walker.row()
    assert (row["state"], row["stage"], row["attempt"], row["done"]) == ("processing", "second", 2, "first")
    assert row["lease_owner"] == "w1" and row["lease_until"] == walker.kernel.now() + 60_000
    assert (row["started_at"], row["last_attempt_at"]) == (walker.kernel.now() - 400, walker.kernel.now())
    entered = {"stage": "second", "attempt": 2, "done": "first", "last_attempt_at": walker.kernel.now()}
    assert second.job._replace(payload="") == taken.job._replace(payload="", **entered)
    assert await walker.story() == [("claimed", 1), ("advanced", 1), ("claimed", 2)]
    stored = await rows(walker.kernel.store, "SELECT stage, attempt, value FROM holdfast_results")
    assert [(one["stage"], one["attempt"]) for one in stored] == [("first", 1)]
    assert second.results == {"first": stored[0]["value"]}, "what is handed on is what is stored"
    (third,) = await walker.settle(await walker.run(second))
    await walker.settle(await walker.run(third))
    assert (await walker.row())["state"] == "succeeded" and (await walker.row())["attempt"] == 3


@pytest.mark.spec("K6", "K19")
async def test_the_end_of_a_stage_and_the_claim_of_the_next_are_one_row_to_write_and_two_to_read(
    walker: Walker, clock: HandClock
) -> None:
    store = walker.kernel.store
    failed = Failed(CallError.of(Category.UPSTREAM, "BAD", "try again").failure)
    first = await walker.take()
    await walker.settle(Ending(first.job, failed))
    clock.advance(3_600)
    (second,) = await walker.settle(await walker.run(await walker.take()))
    written = await rows(store, "SELECT type, attempt FROM holdfast_job_events ORDER BY seq")
    assert [(row["type"], row["attempt"]) for row in written][-1] == ("advanced", 2)
    async with store.reading() as tx:
        story = [(row.type, row.attempt) for row in await events.of_job(tx, second.job.id)]
        failures = await events.failed_in_stage(tx, second.job.id)
        cells = await rollups.read(tx, 0, 1_000_000_000)
        ends = {cell.result: cell.number for cell in cells if cell.series == "stage"}
    assert story[-4:] == [("retried", 1), ("claimed", 2), ("advanced", 2), ("claimed", 3)]
    assert failures == 0, "a new stage has its own count"
    assert ends == {"retried": 1, "advanced": 1}
    assert await audit(walker.kernel) == []


@pytest.mark.spec("K3")
async def test_a_job_that_was_taken_away_is_not_gone_on_with(walker: Walker, clock: HandClock) -> None:
    ended = await walker.run(await walker.take())
    await walker.settle(Ending(ended.job, ended.outcome, ended.value), goes_on=False)
    (other,), _ = await turn(walker.kernel, "w2", ["going"], [], 5)
    assert await walker.settle(ended) == []
    row = await walker.row()
    assert (row["lease_owner"], row["attempt"]) == ("w2", 2) and other.job.attempt == 2
    await cancel(walker.kernel, other.job.id, "ada")
    assert await walker.settle(await walker.run(other)) == []
    assert (await walker.row())["state"] == "cancelled"


@pytest.mark.spec("K3")
async def test_a_lost_answer_is_not_gone_on_with_twice(walker: Walker) -> None:
    """The commit is there and its answer is not: the same end again changes nothing, and what is held is given back."""
    worker = Worker(walker.kernel)
    worker._start((await worker._step(5))[0])
    await worker._until_none_runs(None)
    finished = list(worker._finished)
    await worker._step(0)  # its answer is lost
    worker._finished = finished
    worker._doubt.set()
    await worker._disown()
    row = await walker.row()
    assert (row["state"], row["stage"], row["attempt"]) == ("queued", "second", 2)
    assert (await worker._step(0))[0] == []
    assert await worker.run_until_idle() == 2
    story = [("claimed", 1), ("advanced", 1), ("claimed", 2), ("released", 2), ("claimed", 3), ("advanced", 3)]
    assert await walker.story() == [*story, ("claimed", 4), ("succeeded", 4)]


@pytest.mark.spec("K10")
async def test_a_stage_whose_provider_is_held_is_not_entered(walker: Walker) -> None:
    ended = await walker.run(await walker.take())
    async with walker.kernel.store.transaction() as tx:
        row = await providers.lock(tx, api.name, walker.kernel.now())
        await tx.rows(providers.sql.swap, name=api.name, gate="open", state="{}", now=walker.kernel.now())
        assert row.places == {}
    assert await walker.settle(ended) == []
    assert [(await walker.row())[name] for name in ("state", "stage", "attempt", "parked")] == [
        "queued",
        "second",
        1,
        0,
    ]
    assert await walker.story() == [("claimed", 1), ("advanced", 1)]
    assert (await turn(walker.kernel, "w1", ["going"], [], 5))[0] == [], "the claim parks it"
    assert (await walker.row())["parked"] == 1


@pytest.mark.spec("K4")
async def test_a_job_keeps_its_place_for_a_second(walker: Walker, clock: HandClock) -> None:
    taken = await walker.take()
    clock.advance(GOES_ON_MS / 1_000 - 0.001)
    (second,) = await walker.settle(await walker.run(taken))
    clock.advance(0.001)
    assert await walker.settle(await walker.run(second)) == []
    assert ((await walker.row())["state"], (await walker.row())["stage"]) == ("queued", "third")


@pytest.mark.spec("K4")
async def test_a_job_keeps_its_place_while_nobody_more_urgent_waits(walker: Walker, clock: HandClock) -> None:
    """Longer than a second, if the worker's last claim left nobody behind who is more urgent."""
    ended = [await walker.run(await walker.take())]
    for priority in (Priority.HIGH, Priority.NORMAL, Priority.NORMAL):
        await submit(walker.kernel, Walk, "y", priority=priority)
    worker = Worker(walker.kernel)
    clock.advance(5)
    await worker._step(1)
    assert worker._look == Look(walker.kernel.now(), Priority.HIGH)
    assert not may_go_on(ended[0], walker.kernel.now(), worker._look), "of its own priority some may be older"
    await worker._step(1)
    assert worker._look == Look(walker.kernel.now(), Priority.NORMAL)
    assert may_go_on(ended[0], walker.kernel.now(), worker._look)
    assert not may_go_on(ended[0], walker.kernel.now() + GOES_ON_MS, worker._look), "a look is trusted for a second"
    await worker._step(2)
    assert worker._look == Look(walker.kernel.now(), Priority.LOW), "that was all there was"
    taken, _ = await turn(walker.kernel, "w1", ["going"], ended, 0, goes_on=True, look=worker._look)
    assert [one.job.stage for one in taken] == ["second"]


async def test_a_result_that_was_there_before_is_read_and_not_handed_on(walker: Walker) -> None:
    taken = await walker.take()
    known = Ending(taken.job, Next("new"), '"new"', taken=LeasedJob(taken.job, {"first": '"old"'}, taken.since))
    assert await walker.settle(known) == []


@pytest.mark.spec("K17")
async def test_a_worker_that_is_to_stop_goes_on_with_nothing(walker: Walker) -> None:
    worker, stop = Worker(walker.kernel), asyncio.Event()
    worker._stop = stop
    worker._start((await worker._step(5))[0])
    await worker._until_none_runs(None)
    stop.set()
    assert (await worker._step(0))[0] == []
    row = await walker.row()
    assert (row["state"], row["stage"], row["lease_owner"]) == ("queued", "second", None)


async def test_what_may_go_on_keeps_its_place_among_those_that_run(walker: Walker) -> None:
    """The places of a worker are never more than it has, also while a turn is under way."""
    worker = Worker(walker.kernel, concurrency=1)
    worker._start((await worker._step(1))[0])
    await worker._until_none_runs(None)
    assert len(worker._finished) == 1 and worker._room() == 0
    (second,), _ = await worker._step(0)
    assert second.went_on and worker._room() == 1


async def test_a_job_at_its_last_stage_gives_up_its_place(walker: Walker) -> None:
    """Its end and the next claim are one statement: a place that was kept for it would make them two."""
    worker = Worker(walker.kernel, concurrency=1)
    taken, _ = await worker._step(1)
    for stage_name in ("first", "second", "third"):
        assert [leased.job.stage for leased in taken] == [stage_name]
        worker._start(taken)
        await worker._until_none_runs(None)
        if stage_name != "third":
            taken, _ = await worker._step(0)
    assert len(worker._finished) == 1 and worker._room() == 1

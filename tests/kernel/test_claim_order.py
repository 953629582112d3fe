"""The order of a claim: priority, then age, among what is due; and what is not due yet is in nobody's way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast import App, Context, Job, Priority, Retry, Snooze, stage
from holdfast.core.failure import Category
from holdfast.core.outcome import Done, Failed, Next, Outcome, Released
from holdfast.engines.worker import Worker
from holdfast.errors import CallError
from holdfast.kernel import operate
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.settle import Ending
from holdfast.kernel.submit import JobToEnqueue, prepare, submit, submit_many, submit_orders
from holdfast.kernel.turn import claim_one, end
from holdfast.tables import lanes, new_jobs
from holdfast.testing import HandClock
from tests.kernel.places import Deploy, Place, close_all, rows, take

app = App("order")


@app.job()
class Note(Job[str]):
    @stage(retry=Retry(attempts=3, base_s=2, cap_s=2, jitter="none"))
    async def write(self, ctx: Context, text: str) -> str | Snooze:
        if text == "old" and ctx.attempt == 1:
            raise CallError.of(Category.NETWORK, "FLAKY", "once")
        return text

    @stage()
    async def send(self, ctx: Context, text: str, write: str) -> None: ...


@pytest.mark.spec("K2", "001.12")
async def test_a_retry_goes_before_what_came_after_it(deploy: Deploy) -> None:
    world = await deploy(app)
    old = await world.enqueue(Note, "old")
    world.clock.advance(1)
    later = []
    for number in range(6):
        later.append(await world.enqueue(Note, f"b{number}"))
        world.clock.advance(0.001)
    (first,) = await take(world.kernel, limit=1)
    assert first.id == old
    failed = Failed(CallError.of(Category.NETWORK, "FLAKY", "once").failure)
    async with world.kernel.store.transaction() as tx:
        await end(world.kernel, tx, [Ending(first, failed)])
    assert [job.id for job in await take(world.kernel, limit=1)] == later[:1], "it is not due yet"
    world.clock.advance(2)
    assert [job.id for job in await take(world.kernel, limit=1)] == [old], "it is due again, and the oldest"
    assert [job.id for job in await take(world.kernel, limit=3)] == later[1:4]


@pytest.mark.spec("K2", "001.12")
async def test_what_came_due_and_was_not_claimed_at_once_is_claimed_by_age(deploy: Deploy) -> None:
    """The older ones come due later, and stay behind in the claim that lets all of them in."""
    world = await deploy(app)
    made = []
    for number in range(4):
        made.append(await world.enqueue(Note, f"n{number}", delay_s=40 - 10 * number))
        world.clock.advance(1)
    world.clock.advance(60)
    assert [(await take(world.kernel, limit=1))[0].id for _ in made] == made


@pytest.mark.spec("K2", "001.12")
async def test_priority_comes_before_age_also_for_what_has_just_come_due(deploy: Deploy) -> None:
    world = await deploy(app)
    delayed = await world.enqueue(Note, "delayed and low", delay_s=5, priority=Priority.LOW)
    urgent = await world.enqueue(Note, "delayed and urgent", delay_s=5, priority=Priority.URGENT)
    world.clock.advance(1)
    ready = await world.enqueue(Note, "ready")
    world.clock.advance(10)
    assert [job.id for job in await take(world.kernel, limit=2)] == [urgent, ready]
    assert [job.id for job in await take(world.kernel)] == [delayed], "what was not claimed at once is not lost"


@pytest.mark.spec("K2", "001.12")
async def test_a_job_goes_on_before_younger_ones_begin(deploy: Deploy) -> None:
    world = await deploy(app)
    first = await world.enqueue(Note, "first")
    world.clock.advance(1)
    await world.enqueue(Note, "second")
    (job,) = await take(world.kernel, limit=1)
    async with world.kernel.store.transaction() as tx:
        await end(world.kernel, tx, [Ending(job, Next("x"), '"x"')])
    assert [(job.id, job.stage) for job in await take(world.kernel, limit=1)] == [(first, "send")]


async def marks(kernel: Kernel) -> dict[str, int]:
    """Whether each job is in the ready index."""
    return {
        row["id"]: row["is_due"]
        for row in await rows(kernel.store, "SELECT CAST(id AS TEXT) AS id, is_due FROM holdfast_jobs")
    }


@pytest.mark.spec("K2")
async def test_every_way_into_the_queue_says_whether_the_job_is_due(deploy: Deploy) -> None:
    world = await deploy(app)
    kernel = world.kernel
    now, later = await submit(kernel, Note, "now"), await submit(kernel, Note, "later", delay_s=60)
    batch = await submit_many(kernel, Note, ["a", "b"], delay_s=60)
    bulk = await submit_many(kernel, Note, [str(number) for number in range(150)], delay_s=60)
    bulk_now = await submit_many(kernel, Note, [str(number) for number in range(150)])
    due = await marks(kernel)
    assert due[now] == 1 and due[later] == 0 and {due[one] for one in [*batch, *bulk]} == {0}
    assert {due[one] for one in bulk_now} == {1}
    taken = {job.id: job for job in await take(kernel, limit=500)}
    assert set(taken) == {now, *bulk_now}
    snoozed, retried, released, dead = bulk_now[:4]
    failed = Failed(CallError.of(Category.NETWORK, "FLAKY", "once").failure)
    final = Failed(CallError.of(Category.VALIDATION, "BAD", "never").failure)
    outcomes: dict[str, Outcome] = {snoozed: Snooze(30), retried: failed, released: Released(), dead: final}
    async with kernel.store.transaction() as tx:
        await end(kernel, tx, [Ending(taken[one], outcome) for one, outcome in outcomes.items()])
    due = await marks(kernel)
    assert (due[snoozed], due[retried], due[released]) == (0, 0, 0), "what comes back enters where every claim looks"
    case = (await rows(kernel.store, "SELECT CAST(id AS TEXT) AS id FROM holdfast_dead_letters"))[0]["id"]
    await operate.triage(kernel, case, cause="code", actor="ann")
    await operate.remediate(kernel, case, evidence="mended", actor="ann")
    await operate.replay(kernel, case, actor="ann", delay_s=20)
    assert await take(kernel, limit=500) and (await marks(kernel))[dead] == 0
    world.clock.advance(30)
    assert {snoozed, retried, dead} == {job.id for job in await take(kernel, limit=500)}


@pytest.mark.spec("K2", "K20")
async def test_a_delayed_job_is_rung_for_and_claimed_by_its_id_as_soon_as_it_is_due(deploy: Deploy) -> None:
    world = await deploy(app)
    later = await world.enqueue(Note, "later", delay_s=5)
    async with world.kernel.store.transaction() as tx:
        assert (await lanes.due_ids(tx, "order", world.kernel.registry.declared, world.kernel.now(), 10))[0] == []
    world.clock.advance(5)
    taken = await claim_one(world.kernel, "w", later)
    assert taken is not None, "even if nobody has let it into the ready index yet"
    again = await world.enqueue(Note, "again", delay_s=5)
    world.clock.advance(5)
    async with world.kernel.store.transaction() as tx:
        assert (await lanes.due_ids(tx, "order", world.kernel.registry.declared, world.kernel.now(), 10))[0] == [
            (again, 0)
        ]


@pytest.mark.spec("K2")
async def test_a_clock_that_is_ahead_starts_nothing_before_its_time(place: Place, clock: HandClock) -> None:
    ahead = HandClock(clock.now_ms() + 3_000)
    fast, slow = place.kernel(app, clock=ahead, seed=1), place.kernel(app, clock=clock, seed=2)
    job_id = await submit(fast, Note, "from the future")
    assert await take(slow) == []
    clock.advance(3)
    assert [job.id for job in await take(slow)] == [job_id]
    await close_all(place)


WHOLE = "SELECT * FROM holdfast_jobs WHERE CAST(id AS TEXT) IN ({})"


async def whole(kernel: Kernel, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Each job's row without what makes it itself."""
    text = WHOLE.format(", ".join(f"'{one}'" for one in ids))
    found = {str(row.pop("id")): row for row in await rows(kernel.store, text)}
    return [found[one] for one in ids]


@pytest.mark.spec("K1", "K18", "K19")
async def test_a_job_is_the_same_row_whether_it_comes_alone_in_a_batch_or_in_bulk(
    place: Place, clock: HandClock
) -> None:
    kernel = place.kernel(app, clock=clock)
    options = {"delay_s": 7, "priority": Priority.LOW, "deadline_s": 90, "owner": "ann", "trace": "00-" + "a" * 32}

    def order() -> JobToEnqueue:
        return prepare(Note.__holdfast__, "say \t\\ \u00e9 'x'", job_id=kernel.new_id(), now=kernel.now(), **options)  # type: ignore[arg-type]

    alone = await submit_orders(kernel, [order()])
    batch = await submit_orders(kernel, [order() for _ in range(2)])
    bulk = await submit_orders(kernel, [order() for _ in range(120)])
    copied: list[str] = []
    if place.dialect == "postgres":
        orders = [order() for _ in range(2)]
        async with kernel.store.transaction() as tx:
            await new_jobs.load(tx, [one[:2] for one in orders], kernel.now())  # type: ignore[arg-type]
        copied = [one.id for one in orders]
    found = await whole(kernel, [*alone, *batch, *bulk, *copied])
    now = kernel.now()
    (row,) = await whole(kernel, alone)
    assert all(one == row for one in found)
    assert (row["run_at"], row["deadline_at"], row["is_due"]) == (now + 7_000, now + 90_000, 0)
    assert (row["owner"], row["trace"], row["priority"], row["version"]) == ("ann", options["trace"], 3, 1)
    await close_all(place)


@pytest.mark.spec("K2", "K19")
@pytest.mark.parametrize("many", [1, 3], ids=["alone", "batch"])
async def test_a_new_job_rings_for_its_queue(place: Place, clock: HandClock, many: int) -> None:
    kernel, other = place.kernel(app, clock=clock), place.open(clock)
    listener = other.listen("queue:order") if place.dialect == "postgres" else kernel.store.listen("queue:order")
    await listener.wait(0.2)  # whatever is rung while it begins to listen
    async with asyncio.timeout(10):
        await submit_many(kernel, Note, [str(number) for number in range(many)])
        assert await listener.wait(5)
    listener.close()
    await close_all(place)


@pytest.mark.spec("K2", "K19")
async def test_a_stage_that_advances_rings_for_the_next(place: Place, clock: HandClock) -> None:
    kernel, other = place.kernel(app, clock=clock), place.open(clock)
    await submit(kernel, Note, "x")
    (job,) = await take(kernel)
    listener = other.listen("queue:order") if place.dialect == "postgres" else kernel.store.listen("queue:order")
    await listener.wait(0.2)
    from holdfast.kernel.turn import turn

    async with asyncio.timeout(10):
        await turn(kernel, "w1", kernel.registry.queues, [Ending(job, Next("x"), '"x"')], 0)
        assert await listener.wait(5)
    listener.close()
    await close_all(place)


@pytest.mark.spec("K6", "K19")
async def test_the_last_error_stays_on_the_row_until_there_is_another(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Note, "old")
    failed = Failed(CallError.of(Category.NETWORK, "FLAKY", "once").failure)
    for outcome in (failed, Snooze(1)):
        (job,) = await take(world.kernel)
        async with world.kernel.store.transaction() as tx:
            await end(world.kernel, tx, [Ending(job, outcome)])
        world.clock.advance(2)
    assert "FLAKY" in (await world.job(job_id))["error"]


@pytest.mark.spec("K16")
async def test_nothing_is_claimed_in_the_turn_of_the_stop(place: Place, clock: HandClock) -> None:
    kernel = place.kernel(app, clock=clock)
    stop = asyncio.Event()
    worker = Worker(kernel, concurrency=4)
    task = asyncio.create_task(worker.run(stop))
    async with asyncio.timeout(10):
        while not worker._idle:  # noqa: ASYNC110
            await asyncio.sleep(0)
    worker._idle = False
    worker._wake.set()
    stop.set()
    late = await submit(kernel, Note, "late")
    await task
    found = await rows(kernel.store, "SELECT state, attempt FROM holdfast_jobs")
    assert found == [{"state": "queued", "attempt": 0}], late
    await close_all(place)


@pytest.mark.spec("001.33")
async def test_the_readable_view_has_the_sources_states_and_a_retry_after_only_where_there_is_one(
    deploy: Deploy,
) -> None:
    world = await deploy(app)
    kernel = world.kernel
    ids = await submit_many(kernel, Note, ["done", "bad", "retried", "gone", "runs"])
    waiting = await submit(kernel, Note, "later", delay_s=9)
    taken = {job.id: job for job in await take(kernel)}
    failed = Failed(CallError.of(Category.NETWORK, "FLAKY", "once").failure)
    final = Failed(CallError.of(Category.VALIDATION, "BAD", "never").failure)
    hows: tuple[Outcome, ...] = (Done("x"), final, failed)
    ends = [Ending(taken[one], how) for one, how in zip(ids, hows, strict=False)]
    async with kernel.store.transaction() as tx:
        await end(kernel, tx, ends)
    await operate.cancel(kernel, ids[3], "ann")
    text = "SELECT CAST(id AS TEXT) AS id, status, retry_after, leased_by, attempt_count FROM holdfast_jobs_readable"
    seen = {row["id"]: row for row in await rows(kernel.store, text)}
    assert [seen[one]["status"] for one in ids] == ["complete", "failed", "queued", "cancelled", "processing"]
    assert seen[ids[2]]["retry_after"] is not None and seen[waiting]["retry_after"] is not None
    assert [seen[ids[n]]["retry_after"] for n in (0, 1, 3, 4)] == [None] * 4
    assert seen[ids[4]]["leased_by"] == "w1" and seen[ids[2]]["attempt_count"] == 1

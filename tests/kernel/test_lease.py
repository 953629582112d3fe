"""Leases: a lost worker is noticed, counted and survived; a worker without its lease can write nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import App, Context, Job, JobTx, LeaseLost, Next, Provider, Settled, Wait, stage
from holdfast.core.job import Claimed, State
from holdfast.engines.worker import Worker
from holdfast.kernel import operate
from holdfast.kernel.attempt import run_attempt
from holdfast.kernel.reap import reap_once
from holdfast.kernel.settle import Ending, LeasedJob
from holdfast.kernel.submit import submit
from holdfast.kernel.turn import end, turn
from holdfast.tables import effects, results
from holdfast.testing import HandClock, World
from tests.kernel.places import Deploy, Place, close_all, rows, take

app = App("leases")
mail = Provider("mail", effects="token")
sent: list[str] = []


@app.job()
class Work(Job[str]):
    @stage()
    async def first(self, ctx: Context, text: str) -> str:
        return text

    @stage()
    async def second(self, ctx: Context, text: str, first: str) -> str:
        return f"{first}!"


@app.job()
class Mail(Job[str]):
    @stage(provider=mail)
    async def post(self, ctx: Context, to: str) -> str:
        async def send(token: str) -> str:
            sent.append(to)
            return f"id-{to}"

        return await ctx.effect(("mail", to), send=send)


async def late(world: World, job: Claimed, value: str = '"late"') -> set[str]:
    """A stalled worker wakes up and hands in its result."""
    async with world.kernel.store.transaction() as tx:
        return await end(world.kernel, tx, [Ending(job, Next(), value)])


@pytest.mark.spec("K3", "001.15", "001.35")
async def test_an_expired_lease_goes_back_to_the_queue_and_is_counted_apart(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Work, "x")
    await take(world.kernel)
    assert await reap_once(world.kernel) == 0
    world.clock.advance(60)
    assert await reap_once(world.kernel) == 0, "the lease holds up to its last millisecond"
    world.clock.advance(0.001)
    assert await reap_once(world.kernel) == 1
    row = await world.job(job_id)
    assert (row["state"], row["lease_owner"], row["lease_until"]) == ("queued", None, None)
    assert (row["crashes"], row["failures"], row["attempt"]) == (1, 0, 1)
    assert row["run_at"] > world.clock.now_ms() and '"WORKER_LOST"' in row["error"]
    assert "was lost (1 of 3 in this stage)." in row["error"]
    assert await world.events(job_id) == ["created", "claimed", "lost"]


@pytest.mark.spec("K3")
async def test_the_third_lost_worker_makes_a_poison_job_a_dead_letter(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Work, "x")
    for crashes in (1, 2, 3):
        assert [job.id for job in await take(world.kernel)] == [job_id]
        world.clock.advance(61)
        await reap_once(world.kernel)
        assert (await world.job(job_id))["crashes"] == crashes
        world.clock.advance(5)
    assert await world.state(job_id) == "dead"
    (letter,) = await world.dead_letters()
    assert (letter["error_class"], letter["failure_reason"], letter["attempts_made"]) == ("POISON_JOB", "poison", 3)


@pytest.mark.spec("K3", "K6")
async def test_lost_workers_are_counted_per_stage(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Work, "x")
    for failpoint in ("attempt.before_handler", "attempt.after_handler"):
        world.crash_at(failpoint)
        await world.work()
        world.clock.advance(65)
        await reap_once(world.kernel)
        world.clock.advance(5)
    assert (await world.job(job_id))["crashes"] == 2
    world.crash_at("attempt.before_handler", visit=2)  # the second stage
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded" and world.crashes == 3


@pytest.mark.spec("K3")
async def test_a_stalled_worker_writes_nothing_and_its_value_is_kept_as_late(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Work, "x")
    (stalled,) = await take(world.kernel, "stalled")
    world.clock.advance(61)
    await reap_once(world.kernel)
    before = await world.job(job_id)
    assert await late(world, stalled) == set()
    assert await world.job(job_id) == before, "reaped: the late end changes nothing"
    world.clock.advance(5)
    (again,) = await take(world.kernel, "fresh")
    assert await late(world, stalled) == set() and await late(world, again, '"on time"') == {job_id}
    found = await rows(world.kernel.store, "SELECT is_late, value FROM holdfast_results ORDER BY is_late")
    assert found == [{"is_late": 0, "value": '"on time"'}, {"is_late": 1, "value": '"late"'}]
    assert (await world.events(job_id)).count("stale") == 2
    await world.run_until_idle()
    assert (await world.results(job_id))["second"] == '"on time!"'


@pytest.mark.spec("K3")
async def test_settling_again_after_a_lost_answer_is_no_news(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Work, "x")
    (job,) = await take(world.kernel)
    assert await late(world, job, '"x"') == {job_id}
    assert await late(world, job, '"x"') == set()
    assert await world.events(job_id) == ["created", "claimed", "advanced"]
    found = await rows(world.kernel.store, "SELECT is_late FROM holdfast_results")
    assert found == [{"is_late": 0}]


@pytest.mark.spec("K3")
@pytest.mark.parametrize("newer_first", [True, False])
async def test_two_ends_of_one_job_in_one_group_keep_only_the_newer(deploy: Deploy, newer_first: bool) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Work, "x")
    (stalled,) = await take(world.kernel)
    world.clock.advance(61)
    await reap_once(world.kernel)
    world.clock.advance(5)
    (again,) = await take(world.kernel)
    ends = [Ending(again, Next(), '"new"'), Ending(stalled, Next(), '"old"')]
    async with world.kernel.store.transaction() as tx:
        assert await end(world.kernel, tx, ends if newer_first else ends[::-1]) == {job_id}
    async with world.kernel.store.reading() as tx:
        assert (await results.of_jobs(tx, [job_id]))[job_id] == {"first": '"new"'}


@pytest.mark.spec("K3")
async def test_a_handler_without_its_lease_can_open_no_transaction(deploy: Deploy) -> None:
    world = await deploy(app)
    await world.enqueue(Work, "x")
    (job,) = await take(world.kernel)
    kind = world.kernel.registry.kind(job.kind)
    context = Context(world.kernel, kind, kind.stages[0], job, world.kernel.now())
    async with context.transaction():
        pass
    await context.progress(share=0.5)
    world.clock.advance(61)
    await reap_once(world.kernel)
    with pytest.raises(LeaseLost):
        async with context.transaction():
            raise AssertionError("the block must not be entered")
    with pytest.raises(LeaseLost):
        await context.progress(share=0.9)
    assert (await world.events(job.id)).count("progress") == 1


@pytest.mark.spec("K3")
@pytest.mark.parametrize("moment", ["attempt.before_handler", "call.before"])
async def test_a_worker_that_stood_still_calls_nobody_without_the_lease(deploy: Deploy, moment: str) -> None:
    called: list[str] = []
    asking = App("asking")

    @asking.job()
    class Ask(Job[str]):
        @stage(provider=Provider("oracle"))
        async def ask(self, ctx: Context, what: str) -> str:
            async def answer() -> str:
                called.append(what)
                return what

            return await ctx.call(answer)

    async def pause(name: str) -> None:
        if name == moment and not world.crashes:
            world.crashes += 1
            world.clock.advance(61)
            await reap_once(world.kernel)

    world = await deploy(asking)
    world.kernel.failpoint = pause
    job_id = await world.enqueue(Ask, "why")
    (job,) = await take(world.kernel)
    assert await run_attempt(world.kernel, LeasedJob(job)) is None and called == []
    await world.run_until_idle()
    assert called == ["why"] and await world.state(job_id) == "succeeded"


@pytest.mark.spec("K3", "K12")
async def test_an_effect_is_not_begun_without_the_lease(deploy: Deploy) -> None:
    world = await deploy(app)
    sent.clear()
    job_id = await world.enqueue(Mail, "ann")
    (job,) = await take(world.kernel)
    world.clock.advance(61)
    await reap_once(world.kernel)
    assert await run_attempt(world.kernel, LeasedJob(job)) is None
    assert sent == []
    begin = effects.Begin("mail/ann", job_id, job.attempt, epoch=0, sends=0)
    async with world.kernel.store.transaction() as tx:
        assert not await effects.begin(tx, [begin], world.kernel.now())
    await world.run_until_idle()
    assert sent == ["ann"] and await world.state(job_id) == "succeeded"


@pytest.mark.spec("K3")
async def test_leases_are_renewed_by_one_statement_and_a_lost_one_stops_its_task(
    place: Place, clock: HandClock
) -> None:
    started: asyncio.Queue[str] = asyncio.Queue()
    stopped: asyncio.Queue[str] = asyncio.Queue()
    long = App("long")

    @long.job()
    class Long(Job[str]):
        @stage()
        async def wait(self, ctx: Context, text: str) -> None:
            started.put_nowait(ctx.job_id)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stopped.put_nowait(ctx.job_id)
                raise

    kernel = place.kernel(long, clock=clock)
    ids = [await submit(kernel, Long, str(number)) for number in range(5)]
    worker = Worker(kernel)
    worker._start((await turn(kernel, worker.name, worker.queues, [], 10))[0])
    assert sorted([await started.get() for _ in range(5)]) == sorted(ids)
    statements = counting_statements(kernel.store)
    clock.advance(50)
    await worker.renew()
    assert statements.count("renew") == 1
    leases = await rows(kernel.store, "SELECT DISTINCT lease_until FROM holdfast_jobs")
    assert leases == [{"lease_until": clock.now_ms() + 60_000}]
    await operate.cancel(kernel, ids[0], "ann")
    await worker.renew()
    assert await stopped.get() == ids[0] and stopped.empty()
    for one in worker._running.values():
        one.task.cancel()
    await close_all(place)


def counting_statements(store: Any) -> list[str]:
    """The names of the statements that run on the store from now on."""
    seen: list[str] = []
    begin = store.transaction

    def counted() -> Any:
        opened = begin()

        class Open:
            async def __aenter__(self) -> Any:
                tx = await opened.__aenter__()
                run = tx.rows

                async def spied(statement: Any, **params: Any) -> Any:
                    seen.append(statement.name)
                    return await run(statement, **params)

                tx.rows = spied
                return tx

            async def __aexit__(self, *error: Any) -> Any:
                return await opened.__aexit__(*error)

        return Open()

    store.transaction = counted
    return seen


spoilt = App("spoilt")


@spoilt.job()
class Spoilt(Job[str]):
    """Its hook fails for some of its jobs."""

    @stage()
    async def run(self, ctx: Context, text: str) -> str | Wait:
        return Wait("taken", within_s=60) if text == "wait" else text

    async def on_settled(self, tx: JobTx, change: Settled) -> None:
        if "bad" in change.job.payload:
            raise ValueError("the hook has a bug; password=hunter2hunter2")


@pytest.mark.spec("K3", "K15")
@pytest.mark.parametrize("bad", ["bad", "wait"])
async def test_one_end_that_cannot_be_written_spoils_no_other(deploy: Deploy, bad: str) -> None:
    world = await deploy(spoilt)
    names = ["good", bad, "fine", "wait"]
    ids = [await world.enqueue(Spoilt, name) for name in names]
    await world.work()
    states = [await world.state(job_id) for job_id in ids]
    assert states[0] == states[2] == "succeeded"
    assert sorted([states[1], states[3]]) == ["dead", "waiting"]
    (letter,) = await world.dead_letters()
    assert letter["error_class"] == ("SETTLE_FAILED" if bad == "bad" else "USAGE_ERROR")
    assert "hunter2" not in str(letter)


@pytest.mark.spec("K3")
async def test_a_failing_hook_does_not_keep_other_leases_from_being_reclaimed(deploy: Deploy) -> None:
    world = await deploy(spoilt)
    ids = [await world.enqueue(Spoilt, name) for name in ("good", "bad")]
    await take(world.kernel)
    world.clock.advance(61)
    assert await reap_once(world.kernel) == 2
    assert [await world.state(job_id) for job_id in ids] == ["queued", "dead"]


@pytest.mark.spec("K3")
async def test_reapers_of_two_processes_reclaim_each_lease_once(place: Place, clock: HandClock) -> None:
    kernels = [place.kernel(app, clock=clock, seed=n) for n in range(2)]
    for number in range(20):
        await submit(kernels[0], Work, str(number))
    await take(kernels[0], limit=50)
    clock.advance(61)
    assert sum(await asyncio.gather(*[reap_once(kernel) for kernel in kernels])) == 20
    found = await rows(kernels[0].store, "SELECT DISTINCT state, crashes FROM holdfast_jobs")
    assert found == [{"state": State.QUEUED, "crashes": 1}]
    await close_all(place)

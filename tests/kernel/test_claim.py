"""Claiming: what is due, the most urgent and oldest first, each job by one worker only."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import App, Breaker, Context, Job, Priority, Provider, stage
from holdfast.core.outcome import Released
from holdfast.engines.worker import Worker
from holdfast.kernel import operate
from holdfast.kernel.hold import force
from holdfast.kernel.settle import Ending
from holdfast.kernel.submit import submit
from holdfast.kernel.turn import claim_one, end
from holdfast.testing import HandClock
from tests.kernel.places import Deploy, Place, close_all, rows, take

app = App("claims")
other = App("other")
slow_api = Provider("slow_api", breaker=Breaker())


@app.job()
class Note(Job[str]):
    @stage()
    async def write(self, ctx: Context, text: str) -> str:
        return text


@app.job()
class Call(Job[str]):
    @stage(provider=slow_api)
    async def ask(self, ctx: Context, text: str) -> str:
        return text


@other.job()
class Elsewhere(Job[str]):
    @stage()
    async def write(self, ctx: Context, text: str) -> str:
        return text


@pytest.mark.spec("K2")
async def test_the_most_urgent_job_is_claimed_first_and_the_oldest_of_equals(deploy: Deploy) -> None:
    world = await deploy(app, other)
    order = [("low", Priority.LOW), ("old", Priority.NORMAL), ("new", Priority.NORMAL), ("now", Priority.URGENT)]
    ids = {}
    for name, priority in order:
        ids[name] = await world.enqueue(Note, name, priority=priority)
        world.clock.advance(1)
    ids["elsewhere"] = await world.enqueue(Elsewhere, "x", priority=Priority.HIGH)
    first = [job.id for job in await take(world.kernel, limit=2)]
    assert first == [ids["now"], ids["elsewhere"]]
    assert [job.id for job in await take(world.kernel)] == [ids["old"], ids["new"], ids["low"]]


@pytest.mark.spec("K2", "001.11")
async def test_a_future_dated_job_waits_even_when_it_is_urgent(deploy: Deploy) -> None:
    world = await deploy(app)
    later = await world.enqueue(Note, "later", delay_s=10, priority=Priority.URGENT)
    now = await world.enqueue(Note, "now", priority=Priority.LOW)
    assert [job.id for job in await take(world.kernel)] == [now]
    world.clock.advance(10)
    assert [job.id for job in await take(world.kernel)] == [later]


@pytest.mark.spec("K3", "001.14")
async def test_what_is_queued_again_is_claimed_although_its_lease_would_still_run(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Note, "x")
    (job,) = await take(world.kernel, "w1")
    assert await take(world.kernel, "w2") == [], "the lease is another worker's"
    async with world.kernel.store.transaction() as tx:
        assert await end(world.kernel, tx, [Ending(job, Released())])
    assert [job.id for job in await take(world.kernel, "w2")] == [job_id]


@pytest.mark.spec("K2", "001.13")
async def test_a_claim_writes_lease_owner_and_times_and_keeps_the_first_start(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Note, "x")
    began = world.clock.now_ms()
    await take(world.kernel, "w1")
    row = await world.job(job_id)
    assert (row["state"], row["lease_owner"], row["started_at"]) == ("processing", "w1", began)
    assert row["lease_until"] == began + 60_000 and row["last_attempt_at"] == began == row["updated_at"]
    world.clock.advance(61)
    await world.tick()
    row = await world.job(job_id)
    assert row["started_at"] == began and row["attempt"] == 1 and row["lease_until"] is None
    world.clock.advance(2)
    await take(world.kernel, "w2")
    row = await world.job(job_id)
    assert (row["started_at"], row["attempt"], row["last_attempt_at"]) == (began, 2, world.clock.now_ms())


@pytest.mark.spec("K2", "001.13")
async def test_workers_of_several_processes_never_hold_one_job(place: Place, clock: HandClock) -> None:
    kernels = [place.kernel(app, clock=clock, seed=number) for number in range(4)]
    ids = {await submit(kernels[0], Note, str(number)) for number in range(60)}
    claimed: list[str] = []

    async def grab(number: int) -> None:
        while found := await take(kernels[number], f"w{number}", limit=7):
            claimed.extend(job.id for job in found)
            await asyncio.sleep(0)

    await asyncio.gather(*[grab(number) for number in range(4)])
    assert sorted(claimed) == sorted(ids)
    held = await rows(kernels[0].store, "SELECT attempt FROM holdfast_jobs")
    assert [row["attempt"] for row in held] == [1] * 60
    await close_all(place)


@pytest.mark.spec("K2")
async def test_several_running_workers_run_every_job_once(place: Place, clock: HandClock) -> None:
    seen: list[str] = []
    busy = App("busy")

    @busy.job()
    class Count(Job[int]):
        @stage()
        async def count(self, ctx: Context, number: int) -> None:
            await asyncio.sleep(0)
            seen.append(ctx.job_id)

    kernels = [place.kernel(busy, clock=clock, seed=number) for number in range(3)]
    ids = [await submit(kernels[0], Count, number) for number in range(50)]
    await asyncio.gather(*[Worker(kernel, concurrency=8).run_until_idle() for kernel in kernels])
    assert sorted(seen) == sorted(ids)
    done = await rows(kernels[0].store, "SELECT COUNT(*) AS n FROM holdfast_jobs WHERE state = 'succeeded'")
    assert done == [{"n": 50}]
    await close_all(place)


@pytest.mark.spec("K2", "K9")
async def test_a_job_of_a_held_provider_is_parked_where_it_stands(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Call, "x")
    await force(world.kernel, "slow_api", open=True, actor="ann", reason="planned outage")
    assert await take(world.kernel) == []
    row = await world.job(job_id)
    assert (row["state"], row["parked"], row["hold"]) == ("queued", 1, "breaker")
    assert (row["attempt"], row["failures"], row["started_at"]) == (0, 0, None)
    assert await world.events(job_id) == ["created", "parked"]
    assert await claim_one(world.kernel, "w", job_id) is None


@pytest.mark.spec("K2", "K20")
async def test_a_job_is_claimed_by_its_id_only_when_it_is_due_and_free(deploy: Deploy) -> None:
    world = await deploy(app)
    later = await world.enqueue(Note, "later", delay_s=5)
    assert await claim_one(world.kernel, "w", later) is None
    world.clock.advance(5)
    taken = await claim_one(world.kernel, "w", later)
    assert taken is not None and taken.job.attempt == 1
    assert await claim_one(world.kernel, "w", later) is None
    assert await world.events(later) == ["created", "claimed"]


@pytest.mark.spec("K2", "K18")
async def test_a_cancelled_job_is_not_claimed(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Note, "x")
    await operate.cancel(world.kernel, job_id, "ann")
    assert await take(world.kernel) == []
    assert await world.state(job_id) == "cancelled"

"""A provider's limits, shared by all processes: so many calls a minute, so many at once; what must wait is parked."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import App, CallError, Category, Context, Job, Provider, Retry, stage
from holdfast.engines.worker import Worker
from holdfast.kernel.call import admit
from holdfast.kernel.hold import hold_once
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.questions.explain import explain
from holdfast.kernel.submit import submit
from holdfast.tables import providers
from holdfast.testing import HandClock
from tests.kernel.places import Deploy, Place, close_all, rows

desk = Provider("desk", concurrency=2, timeout_s=30)
app = App("desk")


class Desk:
    """Who stands at the desk now, and how many ever stood there at once."""

    now = 0
    most = 0
    served = 0
    open = asyncio.Event()


@pytest.fixture(autouse=True)
def _fresh_desk() -> None:
    Desk.now = Desk.most = Desk.served = 0
    Desk.open = asyncio.Event()


async def stand() -> str:
    Desk.now += 1
    Desk.most = max(Desk.most, Desk.now)
    try:
        await Desk.open.wait()
        Desk.served += 1
        if Desk.served == 2:
            raise CallError.of(Category.UPSTREAM, "UPSTREAM_INTERNAL", "dropped", status=500)
        return "served"
    finally:
        Desk.now -= 1


@app.job()
class Visit(Job[int]):
    @stage(provider=desk, retry=Retry(attempts=2, base_s=0, jitter="none"))
    async def visit(self, ctx: Context, number: int) -> str:
        return await ctx.call(stand)


async def until(kernel: Kernel, count: str, wanted: int) -> None:
    """Look until the database says so."""
    async with asyncio.timeout(60):
        while (await rows(kernel.store, count))[0]["n"] < wanted:  # noqa: ASYNC110 - another process would look too
            await asyncio.sleep(0.01)


@pytest.mark.spec("K18")
async def test_no_more_calls_at_once_than_the_provider_takes_whatever_the_processes(
    place: Place, clock: HandClock
) -> None:
    kernels = [place.kernel(app, clock=clock, seed=n) for n in range(3)]
    for number in range(20):
        await submit(kernels[0], Visit, number)
    stop = asyncio.Event()
    working = [asyncio.create_task(Worker(kernel, concurrency=8).run(stop)) for kernel in kernels]
    parked = "SELECT COUNT(*) AS n FROM holdfast_jobs WHERE parked = 1 AND hold = 'limit' AND state = 'queued'"
    await until(kernels[0], parked, 18)
    assert Desk.now == 2
    Desk.open.set()  # from here on nobody looks at the limits again: each place is passed on when it comes free
    await until(kernels[0], "SELECT COUNT(*) AS n FROM holdfast_jobs WHERE state = 'succeeded'", 20)
    stop.set()
    await asyncio.gather(*working)
    assert (Desk.most, Desk.served) == (2, 21)
    spent = await rows(kernels[0].store, "SELECT SUM(failures) AS n FROM holdfast_jobs")
    assert spent[0]["n"] <= 1, "only the call that failed cost an attempt"
    await close_all(place)


@pytest.mark.spec("K18")
async def test_the_place_of_a_dead_process_comes_free_when_its_call_must_be_over(deploy: Deploy) -> None:
    world = await deploy(app)
    Desk.open.set()
    for _ in range(2):
        await admit(world.kernel, desk, 30_000)  # two workers that will never report
    job_id = await world.enqueue(Visit, 1)
    await world.work()
    assert Desk.served == 0 and await world.state(job_id) == "queued"
    said = await explain(world.kernel, job_id)
    assert said.facts["code"] == "LIMITED"
    assert "its limit of 2 calls at once is reached" in said.sentence
    world.clock.advance(29)
    assert await hold_once(world.kernel) == 0, "there is no room yet, so nothing is let through to be turned away"
    world.clock.advance(2)
    assert await hold_once(world.kernel) > 0
    await world.work()
    assert await world.state(job_id) == "succeeded"


@pytest.mark.spec("K18")
async def test_a_stage_may_call_a_limited_provider_once_more_after_a_call(deploy: Deploy) -> None:
    """Inside of a call it may not: the inner one would wait for the outer one's place."""
    twice = App("twice")
    narrow = Provider("narrow", concurrency=1)

    @twice.job()
    class Twice(Job[bool]):
        @stage(provider=narrow, retry=Retry(attempts=1))
        async def ask(self, ctx: Context, inside: bool) -> str:
            async def answer() -> str:
                return await ctx.call(answer_at_once) if inside else "yes"

            return await ctx.call(answer) + await ctx.call(answer)

    async def answer_at_once() -> str:
        return "no"

    world = await deploy(twice)
    after, within = await world.enqueue(Twice, False), await world.enqueue(Twice, True)
    await world.run_until_idle()
    assert (await world.results(after))["ask"] == '"yesyes"'
    assert "called inside of a call of itself" in (await world.job(within))["error"]


@pytest.mark.spec("K18")
async def test_what_a_rate_parks_is_let_through_as_the_rate_allows(deploy: Deploy) -> None:
    limited = App("sips")
    slow = Provider("slow", per_minute=6)

    @limited.job()
    class Sip(Job[int]):
        @stage(provider=slow)
        async def sip(self, ctx: Context, number: int) -> str:
            return await ctx.call(stand)

    world = await deploy(limited)
    Desk.open.set()
    Desk.served = 10
    for number in range(60):
        await world.enqueue(Sip, number)
    await world.work()
    turned_away = "SELECT COUNT(*) AS n FROM holdfast_job_events WHERE type = 'held'"
    assert Desk.served == 16 and (await rows(world.kernel.store, turned_away))[0]["n"] == 54
    for _ in range(13):  # a minute, and the second in which a call is on its way
        world.clock.advance(5)
        await hold_once(world.kernel)
        await world.work()
    assert Desk.served == 22
    assert (await rows(world.kernel.store, turned_away))[0]["n"] == 54, "each was turned away once, not every time"


@pytest.mark.spec("K18")
@pytest.mark.parametrize("place", ["postgres"], indirect=True)
async def test_a_call_that_waited_for_the_providers_row_counts_from_when_it_may_begin(
    place: Place, clock: HandClock
) -> None:
    seats = Provider("seats", per_minute=5)
    kernel = place.kernel(app, clock=clock)
    await admit(kernel, seats, 30_000)
    async with kernel.store.transaction() as tx:
        await providers.lock(tx, "seats", clock.now_ms())
        admitted = asyncio.create_task(admit(kernel, seats, 30_000))
        blocked = "datname = current_database() AND wait_event_type = 'Lock'"
        await until(kernel, f"SELECT COUNT(*) AS n FROM pg_stat_activity WHERE {blocked}", 1)
        clock.advance(3)
    await admitted
    async with kernel.store.reading() as tx:
        counted = [at for at, _ in (await providers.read(tx, "seats")).usage.recent]
    assert counted == [clock.now_ms() - 3_000, clock.now_ms()]

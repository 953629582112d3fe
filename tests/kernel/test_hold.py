"""Breakers end to end: what opens one, what waits while it is open, and how the backlog comes back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import App, Breaker, CallError, Category, Context, Job, NotFound, Provider, Retry, stage
from holdfast.core.breaker import record
from holdfast.engines.worker import Worker
from holdfast.kernel.call import admit, call
from holdfast.kernel.hold import force, hold_once
from holdfast.kernel.submit import submit
from holdfast.operator.depth import read_depths
from holdfast.tables import audit, providers
from holdfast.testing import HandClock, World
from tests.kernel.places import Deploy, Place, close_all, rows, take

health = {"ok": False, "calls": 0, "probes": 0}


async def probe() -> bool:
    health["probes"] += 1
    if health["ok"] is None:
        raise ConnectionError("the probe itself broke")
    return bool(health["ok"])


QUICK = Breaker(window=4, open_above=0.5, cooldown_s=30, trials=3, trial_lease_s=20)
llm = Provider("llm", breaker=QUICK)
gateway = Provider("gateway", breaker=Breaker(window=4, inclusive=True, mode="hold", trials=2), probe=probe)
plain = Provider("plain")
app = App("held")
PATIENT = Retry(attempts=50, base_s=1, cap_s=1, jitter="none")


async def called() -> str:
    health["calls"] += 1
    if not health["ok"]:
        raise CallError.of(Category.UPSTREAM, "UPSTREAM_INTERNAL", "down", faults=True, ambiguous=True, status=500)
    return "ok"


@app.job()
class Ask(Job[int]):
    @stage(provider=llm, retry=PATIENT)
    async def ask(self, ctx: Context, number: int) -> str:
        return await ctx.call(called)


@app.job()
class Convert(Job[int]):
    @stage(provider=gateway, retry=PATIENT)
    async def convert(self, ctx: Context, number: int) -> str:
        return await ctx.call(called)


@app.job()
class Plain(Job[int]):
    @stage(provider=plain)
    async def go(self, ctx: Context, number: int) -> str:
        return await ctx.call(called)


@pytest.fixture(autouse=True)
def fresh() -> None:
    health.update(ok=False, calls=0, probes=0)


async def gate(world: World, name: str = "llm") -> str:
    async with world.kernel.store.reading() as tx:
        return (await providers.read(tx, name)).state.gate


async def backlog(world: World, job: Any, count: int) -> list[str]:
    return [await world.enqueue(job, number) for number in range(count)]


async def opened(deploy: Deploy, count: int = 20) -> tuple[World, list[str]]:
    """A world whose llm has just failed four times, with a backlog."""
    world = await deploy(app)
    ids = await backlog(world, Ask, 4)
    await world.work()
    ids += await backlog(world, Ask, count - 4)
    assert await gate(world) == "open" and health["calls"] == 4
    return world, ids


@pytest.mark.spec("K9")
async def test_while_it_is_open_nothing_is_called_and_nothing_is_spent(deploy: Deploy) -> None:
    world, ids = await opened(deploy)
    for _ in range(25):
        world.clock.advance(1)
        await world.tick()
    assert health["calls"] == 4 and await gate(world) == "open"
    found = await rows(world.kernel.store, "SELECT state, parked, hold, failures, crashes FROM holdfast_jobs")
    assert {(row["state"], row["parked"], row["hold"], row["crashes"]) for row in found} == {
        ("queued", 1, "breaker", 0)
    }
    assert sum(row["failures"] for row in found) <= 3, "of the four that opened it, only what has not ended since"
    fresh_job = (await world.job(ids[-1]))["attempt"]
    assert fresh_job == 0


@pytest.mark.spec("K9")
async def test_after_the_cooldown_three_trials_decide_and_a_bad_one_opens_it_as_long_again(deploy: Deploy) -> None:
    world, _ = await opened(deploy)
    await world.tick()
    world.clock.advance(29.999)
    await hold_once(world.kernel)
    assert await gate(world) == "open"
    world.clock.advance(0.001)
    assert await hold_once(world.kernel) == 3
    assert await gate(world) == "half_open"
    trials = await rows(world.kernel.store, "SELECT id FROM holdfast_jobs WHERE hold = 'trial' AND parked = 0")
    assert len(trials) == 3
    await world.work()
    assert await gate(world) == "open" and 5 <= health["calls"] <= 7
    spent = health["calls"]
    world.clock.advance(29)
    await world.tick()
    assert health["calls"] == spent and await gate(world) == "open"
    world.clock.advance(1)
    await world.tick()
    assert spent < health["calls"] <= spent + 3, "the second cooldown is as long as the first"


@pytest.mark.spec("K9")
async def test_good_trials_close_it_and_the_backlog_drains_with_a_ramp(deploy: Deploy) -> None:
    world, ids = await opened(deploy, count=60)
    await world.tick()
    world.clock.advance(30)
    health.update(ok=True, calls=0)
    await world.tick()
    assert await gate(world) == "closed" and health["calls"] == 3
    pace = []
    while await rows(world.kernel.store, "SELECT 1 AS one FROM holdfast_jobs WHERE state = 'queued' LIMIT 1"):
        before = health["calls"]
        await world.tick()
        pace.append(health["calls"] - before)
        world.clock.advance(1)
    assert pace[:3] == [10, 20, 27], "a trickle that doubles, not a stampede"
    assert {await world.state(job_id) for job_id in ids} == {"succeeded"}
    failures = await rows(world.kernel.store, "SELECT SUM(failures) AS n FROM holdfast_jobs")
    assert int(failures[0]["n"]) == 0, "nobody paid for the outage, not even the four whose calls showed it"


@pytest.mark.spec("K9")
async def test_a_look_at_the_breakers_says_how_many_jobs_it_let_through(deploy: Deploy) -> None:
    world, _ = await opened(deploy, count=9)
    await world.tick()
    await force(world.kernel, "llm", open=False, actor="ops", reason="it is back")
    assert await hold_once(world.kernel) == 5, "the five that are parked; ten might have gone"


@pytest.mark.spec("K9")
async def test_a_trial_permit_that_is_lost_with_its_worker_expires(deploy: Deploy) -> None:
    world, _ = await opened(deploy)
    await world.tick()
    world.clock.advance(30)
    await hold_once(world.kernel)
    for _ in range(3):
        await admit(world.kernel, llm, 60_000)  # three workers that will never report
    health["ok"] = True
    await world.work()
    assert await gate(world) == "half_open" and health["calls"] == 4, "no fourth trial"
    world.clock.advance(21)
    await world.tick()
    world.clock.advance(1)
    await world.tick()
    assert await gate(world) == "closed"


@pytest.mark.spec("K9")
async def test_in_hold_mode_good_probes_close_it_and_no_trial_is_made(deploy: Deploy) -> None:
    world = await deploy(app)
    await backlog(world, Convert, 2)
    health["ok"] = True
    await world.work()
    health["ok"] = False
    await backlog(world, Convert, 2)
    await world.work()
    await backlog(world, Convert, 5)
    assert await gate(world, "gateway") == "open", "half of the window is enough when inclusive"
    health["calls"] = 0
    for answer in (False, None, True, False, True):
        health["ok"] = answer
        world.clock.advance(60)
        await world.tick()
        assert await gate(world, "gateway") == "open" and health["calls"] == 0
    health["ok"] = True
    await world.tick()
    assert await gate(world, "gateway") == "closed" and health["probes"] == 6
    await world.run_until_idle()
    assert health["calls"] == 7


@pytest.mark.spec("K9")
async def test_another_systems_held_breaker_on_the_same_database_is_left_to_that_system(
    place: Place, clock: HandClock
) -> None:
    ours, theirs = place.kernel(app, clock=clock), place.kernel(App("elsewhere"), clock=clock, seed=2)
    async with ours.store.transaction() as tx:
        row = await providers.lock(tx, "gateway", ours.now())
        state = row.state
        for number in range(4):
            state = record(state, gateway.breaker or QUICK, ours.now(), state.generation, str(number), False)
        await providers.swap(tx, "gateway", row.state, state, ours.now())
    clock.advance(3_600)
    await hold_once(theirs)
    async with ours.store.reading() as tx:
        assert (await providers.read(tx, "gateway")).state.gate == "open"
    await close_all(place)


@pytest.mark.spec("K9")
async def test_one_breaker_is_shared_by_two_processes(place: Place, clock: HandClock) -> None:
    one, two = (place.kernel(app, clock=clock, seed=n) for n in range(2))
    for number in range(8):
        await submit(one, Ask, number)
    await Worker(one, concurrency=2).run_until_idle()
    seen = health["calls"]
    assert seen >= 4 and await take(two) == []
    clock.advance(5)
    assert await take(two) == [], "retries that have come due are parked by the other process too"
    parked = await rows(two.store, "SELECT COUNT(*) AS n FROM holdfast_jobs WHERE parked = 1")
    assert parked == [{"n": 8}] and health["calls"] == seen
    await close_all(place)


@pytest.mark.spec("K9")
async def test_a_call_that_the_stage_cuts_off_counts_as_a_timeout(deploy: Deploy) -> None:
    silent = App("silent")
    deaf = Provider("deaf", breaker=Breaker(window=2), timeout_s=60)

    @silent.job()
    class Listen(Job[int]):
        @stage(provider=deaf, timeout_s=0.2, retry=Retry(attempts=9, base_s=0, jitter="none"))
        async def listen(self, ctx: Context, number: int) -> None:
            await ctx.call(asyncio.Event().wait)

    world = await deploy(silent)
    await backlog(world, Listen, 2)
    await world.work()
    assert await gate(world, "deaf") == "open"
    found = await rows(world.kernel.store, "SELECT DISTINCT outcome, error_class FROM holdfast_calls")
    assert found == [{"outcome": "ambiguous", "error_class": "NETWORK_TIMEOUT"}]


@pytest.mark.spec("K9", "K5")
async def test_a_callers_own_mistake_opens_nothing(deploy: Deploy) -> None:
    world = await deploy(app)

    async def mistaken() -> str:
        raise CallError.from_status(422, "your fault", {}, now_ms=0)

    for _ in range(10):
        with pytest.raises(CallError):
            await call(world.kernel, llm, mistaken)
    assert await gate(world) == "closed"


@pytest.mark.spec("K4", "K9")
async def test_nobody_calls_a_provider_before_the_time_it_asked_for(deploy: Deploy) -> None:
    world = await deploy(app)
    world.script(llm, rate_limited=1, retry_after_s=45)
    health["ok"] = True
    ids = await backlog(world, Ask, 1)
    await world.work()
    ids += await backlog(world, Ask, 2)
    await world.work()
    assert health["calls"] == 0, "one was told to wait, and the others wait with it"
    others = [await world.job(job_id) for job_id in ids]
    assert [row["failures"] for row in others] == [0, 0, 0]
    assert {row["run_at"] for row in others} == {world.clock.now_ms() + 45_000}
    await world.run_until_idle()
    assert {await world.state(job_id) for job_id in ids} == {"succeeded"}


@pytest.mark.spec("K9", "K8")
async def test_a_person_opens_and_closes_a_breaker_and_is_audited(deploy: Deploy) -> None:
    world = await deploy(app)
    health["ok"] = True
    for name, job in (("llm", Ask), ("plain", Plain)):
        await force(world.kernel, name, open=True, actor="ann", reason="maintenance")
        job_id = await world.enqueue(job, 1)
        world.clock.advance(3_600)
        await world.tick()
        assert (await world.job(job_id))["hold"] == "breaker" and await gate(world, name) == "open"
        await force(world.kernel, name, open=False, actor="bob", reason="done")
        await world.run_until_idle(limit_s=60)
        assert await world.state(job_id) == "succeeded"
        async with world.kernel.store.reading() as tx:
            said = [(row.actor, row.action) for row in await audit.of_subject(tx, f"breaker:{name}")]
            history = [row.gate for row in await providers.history(tx, name)]
        assert said == [("ann", "breaker.opened"), ("bob", "breaker.closed")] and history == ["closed", "open"]
    with pytest.raises(NotFound, match="unheard"):
        await force(world.kernel, "unheard", open=True, actor="ann", reason="?")


@pytest.mark.spec("K9")
async def test_jobs_parked_under_a_provider_that_is_declared_no_more_come_back(deploy: Deploy) -> None:
    world = await deploy(app)
    health["ok"] = True
    job_id = await world.enqueue(Ask, 1)
    await force(world.kernel, "llm", open=True, actor="ann", reason="x")
    await world.tick()
    await force(world.kernel, "llm", open=False, actor="ann", reason="x")
    del world.kernel.registry.providers["llm"]
    await world.run_until_idle(limit_s=60)
    assert await world.state(job_id) == "succeeded"


@pytest.mark.spec("K18")
async def test_a_rate_limit_holds_the_rest_without_cost(deploy: Deploy) -> None:
    limited = App("limited")
    slow = Provider("slow", per_minute=6)

    @limited.job()
    class Sip(Job[int]):
        @stage(provider=slow)
        async def sip(self, ctx: Context, number: int) -> str:
            return await ctx.call(called)

    world = await deploy(limited)
    health["ok"] = True
    await backlog(world, Sip, 10)
    await world.work()
    assert health["calls"] == 6
    left = await rows(world.kernel.store, "SELECT failures, hold FROM holdfast_jobs WHERE state = 'queued'")
    assert [(row["failures"], row["hold"]) for row in left] == [(0, "limit")] * 4
    await world.run_until_idle()
    assert health["calls"] == 10
    async with world.kernel.store.reading() as tx:
        assert (await read_depths(world.kernel, tx)).every() == []

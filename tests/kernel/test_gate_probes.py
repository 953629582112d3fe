"""A half-open gate that no job is left to try: a provider with a probe is asked in the place of the trials."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast import App, Breaker, CallError, Category, Context, Job, Provider, Retry, stage
from holdfast.core.breaker import Gate
from holdfast.kernel.hold import hold_once
from holdfast.kernel.operate import cancel
from holdfast.tables import providers
from holdfast.testing import World
from tests.kernel.places import Deploy

health: dict[str, int] = {"ok": 0, "probes": 0}


async def probe() -> bool:
    health["probes"] += 1
    return bool(health["ok"])


asked = Provider("asked", breaker=Breaker(window=4, cooldown_s=30, trials=3), probe=probe)
app = App("probed")


async def called() -> str:
    raise CallError.of(Category.UPSTREAM, "UPSTREAM_INTERNAL", "down", faults=True, status=500)


@app.job()
class Ask(Job[int]):
    @stage(provider=asked, retry=Retry(attempts=50, base_s=1, cap_s=1, jitter="none"))
    async def ask(self, ctx: Context, number: int) -> str:
        return await ctx.call(called)


async def gate(world: World) -> str:
    async with world.kernel.store.reading() as tx:
        return (await providers.read(tx, "asked")).state.gate


@pytest.mark.spec("K9")
async def test_a_gate_that_no_job_is_left_to_try_is_probed(deploy: Deploy) -> None:
    health.update(ok=0, probes=0)
    world = await deploy(app)
    jobs = [await world.enqueue(Ask, number) for number in range(5)]
    await world.work()
    assert await gate(world) == "open"
    health["ok"] = 1
    world.clock.advance(31)
    for _ in range(2):
        await hold_once(world.kernel)
    assert await gate(world) == "half_open" and not health["probes"], "a job may be on its way"
    for job in jobs:
        await cancel(world.kernel, job, "olga")
    health["ok"] = 0
    world.clock.advance(60)
    await hold_once(world.kernel)
    assert (await gate(world), health["probes"]) == ("open", 1)
    health["ok"] = 1
    world.clock.advance(31)
    await hold_once(world.kernel)
    world.clock.advance(60)
    for expected in ("half_open", "half_open", "closed"):
        assert await gate(world) == "half_open"
        await hold_once(world.kernel)
        assert await gate(world) == expected
    assert health["probes"] == 4


@pytest.mark.spec("K9")
async def test_while_jobs_are_held_they_are_the_trials(deploy: Deploy) -> None:
    health.update(ok=0, probes=0)
    world = await deploy(app)
    for number in range(4):
        await world.enqueue(Ask, number)
    await world.work()
    for number in range(4, 12):
        await world.enqueue(Ask, number)
    world.clock.advance(1)
    await world.work()
    async with (
        world.kernel.store.transaction() as tx
    ):  # half open for long, with all that it may let through on their way
        row = await providers.lock(tx, "asked", world.kernel.now())
        long_ago = replace(row.state, gate=Gate.HALF_OPEN, open_until=world.kernel.now() - 600_000)
        await providers.swap(tx, "asked", row.state, long_ago, world.kernel.now())
    await hold_once(world.kernel)
    assert await gate(world) == "half_open" and not health["probes"]

"""A half-open gate that no job is left to try: a provider with a probe is asked in the place of the trials."""

from __future__ import annotations

import pytest

from holdfast import App, Breaker, CallError, Category, Context, Job, Provider, Retry, stage
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
    assert await gate(world) == "half_open" and not health["probes"], "while jobs wait, they are the trials"
    for job in jobs:
        await cancel(world.kernel, job, "olga")
    health["ok"] = 0
    await hold_once(world.kernel)
    assert (await gate(world), health["probes"]) == ("open", 1)
    health["ok"] = 1
    world.clock.advance(31)
    for expected in ("half_open", "half_open", "half_open", "closed"):
        await hold_once(world.kernel)
        assert await gate(world) == expected
    assert health["probes"] == 4

"""A limit of starts in a minute counts claims: whoever was let in may wait for longer than that before it starts."""

from __future__ import annotations

import pytest

from holdfast import App, Context, Job, Limit, stage
from holdfast.kernel.submit import submit_many
from holdfast.kernel.turn import claim_one
from holdfast.kernel.upkeep.taking_turns import take_turns
from tests.kernel.places import Deploy, take

app = App("fair")


@app.job(limit=Limit(per="owner", per_minute=4))
class Ping(Job[str]):
    @stage()
    async def ping(self, ctx: Context, text: str) -> None: ...


@app.job()
class Plain(Job[str]):
    @stage()
    async def go(self, ctx: Context, text: str) -> None: ...


@pytest.mark.spec("K25")
async def test_a_minute_counts_jobs_when_they_are_claimed_and_not_when_they_were_let_in(deploy: Deploy) -> None:
    """Whoever was let in may wait behind older jobs of other kinds, or for a provider, for longer than the minute."""
    world = await deploy(app)
    await submit_many(world.kernel, Plain, [str(number) for number in range(8)])
    world.clock.advance(0.001)
    await submit_many(world.kernel, Ping, [str(number) for number in range(12)], owner="a")
    for _ in range(2):
        assert {job.kind for job in await take(world.kernel, limit=4)} == {"fair.plain"}
        world.clock.advance(90)
    assert len(await take(world.kernel, limit=12)) == 4
    assert await take(world.kernel, limit=12) == []
    world.clock.advance(59.5)
    assert await take(world.kernel, limit=12) == [], "a start may come a moment after its claim"
    world.clock.advance(2)
    assert len(await take(world.kernel, limit=12)) == 4


@pytest.mark.spec("K25")
async def test_a_job_that_is_claimed_by_its_id_counts_from_then_too(deploy: Deploy) -> None:
    world = await deploy(app)
    ids = await submit_many(world.kernel, Ping, [str(number) for number in range(12)], owner="a")
    assert await take_turns(world.kernel, world.kernel.registry.queues, 4) == 4
    world.clock.advance(90)
    assert await claim_one(world.kernel, "w1", ids[0]) is not None
    world.clock.advance(30)
    assert len(await take(world.kernel, limit=12)) == 3

"""A clock that jumps an hour, forwards or back, under running work: nothing is lost, nothing is sent twice."""

from __future__ import annotations

import pytest

from holdfast import App, CallError, Category, Context, Job, Provider, Retry, stage
from holdfast.kernel.attempt import run_attempt
from holdfast.kernel.reap import reap_once
from holdfast.kernel.turn import turn
from holdfast.testing import World
from tests.kernel.places import Deploy

pytestmark = pytest.mark.spec("K6", "K30")
HOUR_S = 3_600.0
sent: list[str] = []
tries: list[str] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    sent.clear()
    tries.clear()


def post_app() -> tuple[App, type[Job[str]]]:
    app = App("posting")
    mail = Provider("mail", effects="token")

    @app.job(name="posting.letter")
    class Letter(Job[str]):
        @stage(retry=Retry(attempts=3, base_s=30, jitter="none"))
        async def write(self, ctx: Context, to: str) -> None:
            tries.append(to)
            if len(tries) == 1:
                raise CallError.of(Category.UPSTREAM, "AWAY", "not now")

        @stage(provider=mail)
        async def post(self, ctx: Context, to: str) -> None:
            async def send(token: str) -> str:
                sent.append(token)
                return "receipt"

            await ctx.effect(("letter", to), send=send)

    return app, Letter


@pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S])
async def test_a_jump_between_attempts_loses_no_job_and_repeats_no_effect(deploy: Deploy, jump_s: float) -> None:
    app, letter = post_app()
    world = await deploy(app)
    early = await world.enqueue(letter, "ann")
    await world.tick()
    world.clock.advance(jump_s)
    late = await world.enqueue(letter, "bob")
    await world.run_until_idle()
    assert [await world.state(job) for job in (early, late)] == ["succeeded", "succeeded"]
    assert len(sent) == 2 and await world.dead_letters() == []


@pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S])
async def test_a_jump_under_an_attempt_leaves_one_result(deploy: Deploy, jump_s: float) -> None:
    """Forwards, the lease is over: the job goes to another, and the first finds its write refused. Back, it holds."""
    app, letter = post_app()
    tries.append("the first failure is over")
    world = await deploy(app)
    job = await world.enqueue(letter, "ann")
    taken, _ = await turn(world.kernel, "slow", ["posting"], [], 1)
    world.clock.advance(jump_s)
    reaped = await reap_once(world.kernel)
    assert (reaped > 0) is (jump_s > 0)
    ended = await run_attempt(world.kernel, taken[0])
    assert ended is not None
    await turn(world.kernel, "slow", [], [ended], 0)
    await world.run_until_idle()
    assert await world.state(job) == "succeeded" and len(sent) == 1
    assert (await world.events(job)).count("succeeded") == 1
    await _lives(world, letter)


async def _lives(world: World, letter: type[Job[str]]) -> None:
    after = await world.enqueue(letter, "eve")
    await world.run_until_idle()
    assert await world.state(after) == "succeeded"

"""One effect that several jobs have in common, as reruns do: whoever begins first sends, and the others wait for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import App, Context, Job, Provider, stage
from holdfast.core.effect import EffectStatus
from holdfast.core.provider import EffectClass
from holdfast.tables import effects
from holdfast.tables.effects import Begin, Plan, Refusal
from tests.kernel.places import Deploy, take


class Post:
    """A provider that answers only when both jobs have had their chance to send."""

    def __init__(self, effects: EffectClass) -> None:
        self.sent: list[str] = []
        self.app = App("shared")
        self.provider = Provider("post", effects=effects, timeout_s=10, late_bound_s=50, lookup=self.find)
        post = self

        @self.app.job()
        class Send(Job[str]):
            @stage(provider=post.provider)
            async def send(self, ctx: Context, name: str) -> str:
                return await ctx.effect("letter/all", send=post.send)

        self.job = Send

    async def send(self, token: str) -> str:
        self.sent.append(token)
        await asyncio.sleep(0.2)
        return f"p-{token[:6]}"

    async def find(self, token: str) -> str | None:
        return f"p-{token[:6]}" if self.sent else None


@pytest.mark.parametrize("offers", ["token", "lookup", "neither"])
@pytest.mark.spec("K12")
async def test_two_jobs_with_one_effect_send_it_once(offers: EffectClass, deploy: Deploy) -> None:
    post = Post(offers)
    world = await deploy(post.app)
    jobs = [await world.enqueue(post.job, name) for name in ("ann", "bob")]
    for _ in range(3):
        await world.run_until_idle()
        world.clock.advance(60)
    assert len(post.sent) == 1
    states = sorted([await world.state(job) for job in jobs])
    # Where nobody can be asked, the second job may have met a send under way: then a person is asked, nothing is sent.
    assert states in (
        [["dead", "succeeded"], ["succeeded", "succeeded"]] if offers == "neither" else [["succeeded"] * 2]
    )


@pytest.mark.spec("K12")
async def test_a_refusal_of_one_job_does_not_deny_what_another_has_sent(deploy: Deploy) -> None:
    """Found by a simulated seed: both jobs were at their first attempt, so the attempt alone fenced nothing."""
    post = Post("token")
    world = await deploy(post.app)
    names = [await world.enqueue(post.job, name) for name in ("ann", "bob")]
    taken = {job.id: job for job in await take(world.kernel)}
    ann, bob = (taken[name] for name in names)
    now = world.kernel.now()
    async with world.kernel.store.transaction() as tx:
        await effects.plan(tx, [Plan("k", "t", ann.id, ann.kind, ann.stage, "post", "token", 0, 1)], now)
        assert await effects.begin(tx, [Begin("k", ann.id, ann.attempt, 0, sends=0)], now) == {"k": 1}
        assert await effects.begin(tx, [Begin("k", bob.id, bob.attempt, 0, sends=0)], now) == {}  # it read before that
        assert await effects.begin(tx, [Begin("k", bob.id, bob.attempt, 0, sends=1)], now) == {"k": 2}
        refused = (EffectStatus.PLANNED, "RATE_LIMITED", "too many")
        assert not await effects.refuse(tx, [Refusal("k", ann.attempt, 1, *refused)], now)
        assert await effects.refuse(tx, [Refusal("k", bob.attempt, 2, *refused)], now)


@pytest.mark.spec("K12")
async def test_effects_at_the_same_time_share_their_commits(deploy: Deploy) -> None:
    """Twenty sends are begun by a commit or two and marked by a commit or two, not by twenty each. (SQLite's commits in
    a test's own thread are over before anybody else can come.)"""
    app, sent = App("many"), Provider("many", effects="token")
    tokens: list[str] = []

    async def send(token: str) -> str:
        tokens.append(token)
        return f"p-{token[:6]}"

    @app.job()
    class Many(Job[int]):
        @stage(provider=sent)
        async def run(self, ctx: Context, number: int) -> str:
            return await ctx.effect(f"many/{number}", send=send)

    world = await deploy(app)
    jobs = [await world.enqueue(Many, number) for number in range(20)]
    commits = 0
    opened = world.kernel.store.transaction

    def counting() -> Any:
        nonlocal commits
        commits += 1
        return opened()

    world.kernel.store.transaction = counting  # type: ignore[method-assign]
    await world.work()
    assert len(set(tokens)) == len(tokens) == 20
    assert [await world.state(job) for job in jobs] == ["succeeded"] * 20
    assert commits <= (10 if world.kernel.store.dialect == "postgres" else 20 + 20 + 10)

"""One effect that several jobs have in common, as reruns do: whoever begins first sends, and the others wait for it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from holdfast import App, CallError, Category, Context, Job, Provider, stage
from holdfast.core.effect import EffectStatus
from holdfast.core.provider import EffectClass
from holdfast.kernel import effects as ledger
from holdfast.tables import effects
from holdfast.tables.effects import Begin, Mark, Plan, Refusal
from tests.kernel.places import Deploy, rows, take


class Post:
    """A provider that answers only when both jobs have had their chance to send."""

    def __init__(self, effects: EffectClass, *, lookup: bool = True) -> None:
        self.sent: list[str] = []
        self.refuses: list[CallError] = []
        self.app = App("shared")
        find = self.find if lookup else None
        self.provider = Provider("post", effects=effects, timeout_s=10, late_bound_s=50, lookup=find)
        post = self

        @self.app.job()
        class Send(Job[str]):
            @stage(provider=post.provider)
            async def send(self, ctx: Context, name: str) -> str:
                return await ctx.effect("letter/all", send=lambda token: post.send(token))

        self.job = Send

    async def send(self, token: str) -> str:
        self.sent.append(token)
        await asyncio.sleep(0.2)
        if self.refuses:
            raise self.refuses.pop(0)
        return f"p-{token[:6]}"

    async def find(self, token: str) -> str | None:
        return f"p-{token[:6]}" if self.sent else None


@pytest.mark.parametrize("offers", ["token", "lookup", "neither"])
@pytest.mark.spec("K12")
async def test_two_jobs_with_one_effect_send_it_once_and_both_have_its_outcome(
    offers: EffectClass, deploy: Deploy
) -> None:
    """The second waits for the first: nothing is lost, nobody is counted as crashed, no lease has to end."""
    post = Post(offers)
    world = await deploy(post.app)
    jobs = [await world.enqueue(post.job, name) for name in ("ann", "bob")]
    started_at = world.clock.now_ms()
    await world.run_until_idle()
    assert [await world.state(job) for job in jobs] == ["succeeded"] * 2
    assert len(post.sent) == 1 and await world.results(jobs[0]) == await world.results(jobs[1])
    assert world.clock.now_ms() - started_at <= 2_000
    for job in jobs:
        assert not {"lost", "retried", "stale"} & set(await world.events(job))
        assert ((await world.job(job))["crashes"], (await world.job(job))["failures"]) == (0, 0)


@pytest.mark.spec("K12")
@pytest.mark.parametrize("offers", ["token", "lookup", "neither"])
async def test_whoever_has_waited_long_goes_back_to_the_queue_at_no_cost(
    offers: EffectClass, deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "WAIT_S", (0.0,))
    post = Post(offers)
    world = await deploy(post.app)
    jobs = [await world.enqueue(post.job, name) for name in ("ann", "bob")]
    await world.work()
    assert sorted([await world.state(job) for job in jobs]) == ["queued", "succeeded"]
    await world.run_until_idle()
    assert [await world.state(job) for job in jobs] == ["succeeded"] * 2 and len(post.sent) == 1
    assert sum([(await world.job(job))["failures"] + (await world.job(job))["crashes"] for job in jobs]) == 0


@pytest.mark.spec("K12")
@pytest.mark.parametrize("category, sends", [(Category.VALIDATION, 2), (Category.RATE_LIMIT, 2)])
async def test_when_the_first_is_refused_the_second_sends(category: Category, sends: int, deploy: Deploy) -> None:
    post = Post("neither")
    post.refuses = [CallError.of(category, "REFUSED", "not that one")]
    world = await deploy(post.app)
    jobs = [await world.enqueue(post.job, name) for name in ("ann", "bob")]
    await world.run_until_idle()
    states = sorted([await world.state(job) for job in jobs])
    assert states == (["dead", "succeeded"] if category is Category.VALIDATION else ["succeeded"] * 2)
    assert len(post.sent) == sends


@pytest.mark.spec("K12")
@pytest.mark.parametrize("offers, sends", [("token", 2), ("lookup", 1), ("neither", 1)])
async def test_when_the_first_is_in_doubt_the_class_decides(offers: EffectClass, sends: int, deploy: Deploy) -> None:
    post = Post(offers, lookup=offers == "lookup")
    world = await deploy(post.app)
    jobs = [await world.enqueue(post.job, name) for name in ("ann", "bob")]
    world.script(post.provider, timeout_after_effect=1)
    await world.run_until_idle()
    states = {await world.state(job) for job in jobs}
    assert states == ({"dead"} if offers == "neither" else {"succeeded"})
    assert len(post.sent) == sends and len(set(post.sent)) == 1


@pytest.mark.spec("K12")
async def test_one_attempt_that_asks_twice_at_once_sends_once(deploy: Deploy) -> None:
    post = Post("token")
    app = App("twice")

    @app.job()
    class Twice(Job[str]):
        @stage(provider=post.provider)
        async def send(self, ctx: Context, name: str) -> list[str]:
            return await asyncio.gather(*[ctx.effect(("letter", name), send=post.send) for _ in range(2)])

    world = await deploy(app)
    job = await world.enqueue(Twice, "ann")
    await world.run_until_idle()
    assert await world.state(job) == "succeeded" and len(post.sent) == 1


@pytest.mark.spec("K12")
async def test_a_mark_is_fenced_by_the_job_as_well_as_by_its_attempt(deploy: Deploy) -> None:
    post = Post("token")
    world = await deploy(post.app)
    names = [await world.enqueue(post.job, name) for name in ("ann", "bob")]
    taken = {job.id: job for job in await take(world.kernel)}
    ann, bob = (taken[name] for name in names)
    now = world.kernel.now()
    async with world.kernel.store.transaction() as tx:
        await effects.plan(tx, [Plan("k", "t", ann.id, ann.kind, ann.stage, "post", "token", 0, 1)], now)
        assert await effects.begin(tx, [Begin("k", bob.id, bob.attempt, 0, sends=0)], now) == {"k": 1}
        assert ann.attempt == bob.attempt
        assert not await effects.mark(tx, [Mark("k", ann.id, ann.attempt, "p-ann")], now)
        assert await effects.mark(tx, [Mark("k", bob.id, bob.attempt, "p-bob")], now)
        row = await effects.lock(tx, "k")
    assert row is not None and (row.provider_id, row.sender, row.job_id) == ("p-bob", bob.id, ann.id)


@pytest.mark.spec("K12")
async def test_a_second_send_that_could_not_be_prevented_is_in_the_audit(deploy: Deploy) -> None:
    """A worker stood still with leave to send, another sent meanwhile, and then the first did: it must be seen."""
    post = Post("lookup")
    world = await deploy(post.app)
    job_id = await world.enqueue(post.job, "ann")

    async def send(token: str) -> str:
        async with world.kernel.store.transaction() as tx:
            await effects.backfill(tx, "shared::letter/all", "p-theirs", world.kernel.now())
        return "p-ours"

    post.send = send  # type: ignore[method-assign]
    await world.run_until_idle()
    assert await world.results(job_id) == {"send": '"p-theirs"'}, "what stands in the ledger stands"
    (row,) = await rows(world.kernel.store, "SELECT actor, subject, data FROM holdfast_audit")
    assert (row["actor"], row["subject"]) == ("kernel", "effect:shared::letter/all")
    assert json.loads(row["data"]) == {"provider": "post", "ours": "p-ours", "theirs": "p-theirs"}


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
        assert not await effects.refuse(tx, [Refusal("k", ann.id, ann.attempt, 1, *refused)], now)
        assert await effects.refuse(tx, [Refusal("k", bob.id, bob.attempt, 2, *refused)], now)


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

"""The effect ledger at work: crashes at every step, ambiguity, people's answers."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import CallError, Category
from holdfast.core.effect import EffectStatus, token_of
from holdfast.core.provider import EffectClass
from holdfast.errors import StoreUnavailable
from holdfast.kernel import effect_open
from holdfast.kernel import effects as ledger
from holdfast.tables import effects
from holdfast.testing import World
from tests.kernel.places import Deploy, rows
from tests.kernel.post import CLASSES, KEY, Post, row_of, started


@pytest.mark.spec("K12")
async def test_an_effect_is_sent_then_marked_in_one_write(deploy: Deploy) -> None:
    post = Post("neither")
    world, job_id = await started(deploy, post)
    await world.run_until_idle()
    row = await row_of(world)
    assert (row["status"], row["provider_id"], row["sends"]) == ("sent", f"p-{row['token'][:6]}", 1)
    assert row["marked_at"] == world.clock.now_ms() and str(row["job_id"]) == job_id
    assert post.delivered == 1 and (await world.results(job_id))["send"] == f'"{row["provider_id"]}"'


CRASHES = ["call.before", "effect.before_send", "effect.after_send", "call.after", "breaker.before_commit"]
CRASHES += ["effect.after_mark", "attempt.after_handler", "settle.before_commit", "settle.after_commit"]


@pytest.mark.spec("K12")
@pytest.mark.parametrize("failpoint", CRASHES)
@pytest.mark.parametrize("kind", CLASSES)
async def test_a_crash_anywhere_never_delivers_twice(deploy: Deploy, kind: EffectClass, failpoint: str) -> None:
    post = Post(kind)
    world, job_id = await started(deploy, post)
    world.crash_at(failpoint)
    await world.run_until_idle()
    assert world.crashes == 1 and len(set(post.tokens)) <= 1
    marked = failpoint in CRASHES[5:]
    if kind == "neither" and not marked:
        assert await world.state(job_id) == "dead" and (await row_of(world))["status"] == "review"
        assert post.delivered <= 1, "nobody can know, so nobody sends again"
        (letter,) = await world.dead_letters()
        assert letter["error_class"] == "EFFECT_AMBIGUOUS"
    else:
        assert await world.state(job_id) == "succeeded" and post.delivered == 1
        assert (await row_of(world))["status"] == "sent"
    if kind == "lookup" and not marked:
        assert post.lookups == 1, "it looked before it sent again"


@pytest.mark.spec("K12")
@pytest.mark.parametrize("really", [True, False])
@pytest.mark.parametrize("kind", CLASSES)
async def test_a_timeout_is_cleared_up_before_anything_is_sent_again(
    deploy: Deploy, kind: EffectClass, really: bool
) -> None:
    post = Post(kind)
    world, job_id = await started(deploy, post)
    world.script(post.provider, **{"timeout_after_effect" if really else "timeouts": 1})
    await world.work()
    assert (await row_of(world))["status"] == "unknown"
    await world.run_until_idle()
    if kind == "neither":
        assert (await row_of(world))["status"] == "review" and post.delivered == int(really)
    else:
        assert await world.state(job_id) == "succeeded" and post.delivered == 1
    if kind == "lookup":
        assert (await row_of(world))["sends"] == (1 if really else 2)


@pytest.mark.spec("K12")
async def test_a_lookup_waits_for_what_may_still_arrive_and_costs_nothing(deploy: Deploy) -> None:
    post = Post("lookup")
    world, job_id = await started(deploy, post)
    world.script(post.provider, timeouts=1)
    await world.work()
    sent_at = world.clock.now_ms()
    world.clock.advance(1)
    await world.work()
    row = await world.job(job_id)
    assert (row["run_at"], row["failures"]) == (sent_at + 60_000, 1) and post.lookups == 0
    await world.run_until_idle()
    assert post.lookups == 1 and post.delivered == 1


@pytest.mark.spec("K12", "K5")
async def test_a_definite_refusal_that_may_pass_is_tried_again_and_one_that_may_not_is_final(deploy: Deploy) -> None:
    post = Post("neither")
    post.refuses = [CallError.of(Category.RATE_LIMIT, "RATE_LIMITED", "slow down", status=429)]
    world, job_id = await started(deploy, post)
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded" and post.delivered == 1
    bad = Post("neither")
    bad.refuses = [CallError.of(Category.VALIDATION, "UPSTREAM_UNPROCESSABLE", "no such address", status=422)]
    other = await deploy(bad.app)
    dead = await other.enqueue(bad.job, "nobody")
    await other.run_until_idle()
    assert await other.state(dead) == "dead"
    (letter,) = await other.dead_letters()
    await other.mend_and_replay(letter["id"])
    await other.run_until_idle()
    assert await other.state(dead) == "succeeded", "a replay is a new epoch: it may try again"


@pytest.mark.spec("K12")
async def test_two_jobs_with_one_key_have_one_effect(deploy: Deploy) -> None:
    post = Post("neither")
    world, first = await started(deploy, post)
    await world.run_until_idle()
    second = await world.enqueue(post.job, "ann")
    await world.run_until_idle()
    assert post.delivered == 1 and await world.results(first) == await world.results(second)


@pytest.mark.spec("K12")
@pytest.mark.parametrize("kind", CLASSES)
async def test_a_lost_answer_before_the_send_is_no_doubt_about_it(
    deploy: Deploy, kind: EffectClass, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database commits that the send begins, and its answer is lost: who asked knows that nothing was sent."""
    post = Post(kind, lookup=True)
    world, job_id = await started(deploy, post)
    intact, lost = effects.begin_new, list[Any]()

    async def begin_new(tx: Any, plans: Any, now: int) -> set[str]:
        begun = await intact(tx, plans, now)
        if not lost:
            lost.append(plans)
            tx.after_commit(away)
        return begun

    def away() -> None:
        raise StoreUnavailable("the answer was lost")

    monkeypatch.setattr(effects, "begin_new", begin_new)
    monkeypatch.setattr(effect_open, "ASK_AGAIN_S", (0.0,))
    await world.work()
    assert await world.state(job_id) == "succeeded" and len(lost) == 1
    assert post.delivered == 1 and len(post.tokens) == 1 and post.lookups == 0
    assert ((await row_of(world))["status"], (await row_of(world))["sends"]) == ("sent", 2)


@pytest.mark.spec("K12")
@pytest.mark.parametrize("kind", ["token", "lookup"])
async def test_a_lookup_that_is_refused_is_no_refusal_of_the_send(deploy: Deploy, kind: EffectClass) -> None:
    """Found by a simulated seed: a recipient was left out as refused, although only the question was."""
    post = Post(kind, lookup=True)
    world, job_id = await started(deploy, post)
    world.script(post.provider, timeout_after_effect=1, refusals=1)
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded"
    assert post.delivered == 1 and len(post.tokens) == 1
    assert (await row_of(world))["status"] == "sent"


@pytest.mark.spec("K12")
@pytest.mark.parametrize("really", [True, False])
async def test_a_mark_without_evidence_is_looked_into_before_any_send_and_alerts(
    deploy: Deploy, really: bool, caplog: pytest.LogCaptureFixture
) -> None:
    post = Post("lookup")
    world, job_id = await started(deploy, post)
    token = token_of(KEY)
    if really:
        await post.send("ann", token)
    async with world.kernel.store.transaction() as tx:
        plan = effects.Plan(KEY, token, job_id, "post.send", "send", "post", "lookup", epoch=0, attempt=1)
        await effects.plan(tx, [plan], world.kernel.now())
        await effects.answer(tx, KEY, EffectStatus.SENT, None, world.kernel.now())
    await _mark_without_evidence(world)
    with caplog.at_level("INFO"):
        await world.run_until_idle()
    assert post.lookups == 1 and post.delivered == 1 and await world.state(job_id) == "succeeded"
    assert (await row_of(world))["provider_id"] is not None
    assert "effect.marked_without_evidence" in [record.message.split()[0] for record in caplog.records]


async def _mark_without_evidence(world: World) -> None:
    from holdfast.stores.statement import _statement

    text = "UPDATE holdfast_effects SET status = 'sent', provider_id = NULL, marked_at = 1"
    async with world.kernel.store.transaction() as tx:
        await tx.rows(_statement("forge", {None: text}))


@pytest.mark.spec("K12", "K8")
@pytest.mark.parametrize("sent", [True, False])
async def test_a_person_answers_and_the_replayed_job_goes_on(deploy: Deploy, sent: bool) -> None:
    post = Post("neither")
    world, job_id = await started(deploy, post)
    world.script(post.provider, **{"timeout_after_effect" if sent else "timeouts": 1})
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    await world.mend_and_replay(letter["id"])
    await world.run_until_idle()
    assert await world.state(job_id) == "dead", "without an answer a replay sends nothing"
    assert post.delivered == int(sent)
    assert await ledger.answer(world.kernel, KEY, sent=sent, provider_id=None, actor="ann")
    assert not await ledger.answer(world.kernel, KEY, sent=not sent, provider_id=None, actor="bob")
    await world.mend_and_replay(letter["id"])
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded" and post.delivered == 1
    said = await rows(
        world.kernel.store, "SELECT actor, action FROM holdfast_audit WHERE subject = 'effect:post:/letter/ann'"
    )
    assert said == [{"actor": "ann", "action": "effect.answered"}]


@pytest.mark.spec("K12")
async def test_evidence_that_comes_after_a_person_was_asked_is_kept(deploy: Deploy) -> None:
    post = Post("neither")
    world, job_id = await started(deploy, post)
    world.crash_at("effect.before_send")
    await world.work()
    async with world.kernel.store.transaction() as tx:
        assert await effects.ask(tx, KEY, "who knows", world.kernel.now())
        other, own = effects.Mark(KEY, job_id, 2, "p-2"), effects.Mark(KEY, job_id, 1, "p-1")
        assert not await effects.mark(tx, [other], world.kernel.now()), "not by another attempt"
        assert await effects.mark(tx, [own], world.kernel.now())
    assert (await row_of(world))["status"] == "sent"


@pytest.mark.spec("K12")
async def test_a_tokens_time_runs_from_its_first_send(deploy: Deploy) -> None:
    """However often it is sent again: what the provider remembers, it remembers since then."""
    post = Post("token", lookup=False)
    world, job_id = await started(deploy, post)
    first = world.kernel.now()
    world.script(post.provider, server_errors=2)
    for _ in range(3):
        last = world.kernel.now()
        await world.work()
        row = await row_of(world)
        assert (row["first_sent_at"], row["last_sent_at"]) == (first, last)
        world.clock.advance(60)
    assert row["sends"] == 3 and await world.state(job_id) == "succeeded"

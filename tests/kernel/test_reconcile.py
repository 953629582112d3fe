"""Reconciliation: what nobody works on and nobody knows is looked up, backfilled, or handed to a person; never sent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.provider import EffectClass
from holdfast.errors import ProviderHeld
from holdfast.kernel import operate
from holdfast.kernel.ledger.look_into import look_into
from holdfast.kernel.ledger.reconcile import reconcile_once
from holdfast.kernel.turn import claim_one
from holdfast.tables import effects, ops
from holdfast.testing import World
from tests.kernel.places import Deploy
from tests.kernel.post import KEY, Post, row_of, started


async def in_doubt(deploy: Deploy, post: Post, *, really: bool) -> tuple[World, str, str]:
    """A job that was cancelled while nobody knew whether its letter was sent."""
    world, job_id = await started(deploy, post)
    world.script(post.provider, **{"timeout_after_effect" if really else "timeouts": 1})
    await world.work()
    await operate.cancel(world.kernel, job_id, "ann")
    return world, job_id, KEY


@pytest.mark.spec("K12")
@pytest.mark.parametrize("really", [True, False])
async def test_reconciliation_looks_backfills_and_never_sends(deploy: Deploy, really: bool) -> None:
    post = Post("lookup")
    world, _, _ = await in_doubt(deploy, post, really=really)
    assert await reconcile_once(world.kernel) == 0, "not before the grace time"
    world.clock.advance(61)
    assert await reconcile_once(world.kernel) == 1
    assert (await row_of(world))["status"] == ("sent" if really else "planned")
    assert post.delivered == int(really) and await reconcile_once(world.kernel) == 0
    world.clock.advance(3_600)
    assert (await reconcile_once(world.kernel), post.lookups) == (0, 1), "what is known is not asked for again"


@pytest.mark.spec("K12")
@pytest.mark.parametrize("kind", ["token", "neither"])
async def test_what_reconciliation_cannot_know_goes_to_a_person(deploy: Deploy, kind: EffectClass) -> None:
    post = Post(kind)
    world, _, _ = await in_doubt(deploy, post, really=True)
    world.clock.advance(61)
    assert await reconcile_once(world.kernel) == 1
    assert (await row_of(world))["status"] == "review"
    async with world.kernel.store.reading() as tx:
        assert [row.key for row in await ops.effects_page(tx, before=None, limit=9, status="review")] == [KEY]


@pytest.mark.spec("K12")
async def test_a_token_is_given_up_as_unsent_only_when_it_can_no_longer_arrive(deploy: Deploy) -> None:
    """Found by a simulated seed: a replay hours later sent again under a token that the provider had forgotten."""
    post = Post("token", lookup=True)
    world, job_id = await started(deploy, post)
    world.script(post.provider, timeouts=4)
    for _ in range(4):
        await world.work()
        world.clock.advance(5)
    await operate.cancel(world.kernel, job_id, "ann")
    world.kernel.tuning = replace(world.kernel.tuning, reconcile_grace_s=1)
    world.clock.advance(2)
    await reconcile_once(world.kernel)
    assert (await row_of(world))["status"] == "unknown" and post.lookups, "it may still arrive"
    world.clock.advance(61)
    await reconcile_once(world.kernel)
    row = await row_of(world)
    assert (row["status"], row["first_sent_at"]) == ("planned", None), "it never happened: the next is the first"


@pytest.mark.spec("K12")
async def test_reconciliation_leaves_alone_what_a_live_job_will_clear_up(deploy: Deploy) -> None:
    post = Post("lookup")
    world, _ = await started(deploy, post)
    world.script(post.provider, timeouts=1)
    await world.work()
    world.clock.advance(3_600)
    assert await reconcile_once(world.kernel) == 0 and post.lookups == 0


@pytest.mark.spec("K12")
async def test_reconciliation_does_not_touch_what_is_sent_anew(deploy: Deploy) -> None:
    post = Post("lookup")
    world, _, key = await in_doubt(deploy, post, really=False)
    async with world.kernel.store.transaction() as tx:
        assert not await effects.unsent(tx, key, 0, world.kernel.now()), "another number of sends: somebody began"
        assert await effects.unsent(tx, key, 1, world.kernel.now())


@pytest.mark.spec("K12")
@pytest.mark.parametrize("really", [True, False])
async def test_a_doubtful_send_is_looked_into_once_it_must_have_arrived(deploy: Deploy, really: bool) -> None:
    """`holdfast.kit.repair.look_into`, with which a stage asks what became of an earlier send."""
    post, other = Post("lookup"), Post("neither")
    world, job_id = await started(deploy, post)
    world.script(post.provider, **{"timeout_after_effect" if really else "timeouts": 1})
    await world.work()
    world.clock.advance(30)
    leased = await claim_one(world.kernel, "w9", job_id)
    assert leased is not None
    with pytest.raises(ProviderHeld, match="an earlier send may still arrive"):
        await look_into(world.kernel, leased.job, post.provider, KEY)
    world.clock.advance(31)
    assert await look_into(world.kernel, leased.job, post.provider, "post:/letter/bob") is None, "never planned"
    elsewhere = replace(other.provider, name="telex")
    assert await look_into(world.kernel, leased.job, elsewhere, KEY) is None, "another's effect"
    assert await look_into(world.kernel, leased.job, replace(post.provider, lookup=None), KEY) is None
    assert post.lookups == 0
    found = f"p-{post.tokens[0][:6]}" if really else None
    assert await look_into(world.kernel, leased.job, post.provider, KEY) == found
    assert ((await row_of(world))["status"], post.lookups) == ("sent" if really else "unknown", 1)
    if really:
        assert await look_into(world.kernel, leased.job, post.provider, KEY) == found and post.lookups == 1, "known"

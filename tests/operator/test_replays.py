"""A whole group of dead letters, mended and replayed as one: previewed, at a rate, paused, stopped, killed half-way."""

from __future__ import annotations

import pytest
from tests.kernel.places import Deploy
from tests.operator.test_mend import Order, Sell, app, desk_of

from holdfast.core.case import Cause
from holdfast.errors import NotAllowed, NotFound
from holdfast.kernel.operate import triage
from holdfast.kernel.questions.explain import iso
from holdfast.operator import replays
from holdfast.operator.letters import list_letters, show_letter
from holdfast.operator.mend import mend_and_replay
from holdfast.operator.page import ListPage
from holdfast.tables import replays as table
from holdfast.tables.replays import Group
from holdfast.testing import World

pytestmark = pytest.mark.spec("K8")


async def kill_some(world: World, number: int) -> Group:
    for item in range(number):
        await world.enqueue(Sell, Order(f"rope-{item}", 6), owner=f"owner-{item % 2}")
    await world.run_until_idle()
    letters = (await list_letters(desk_of(world), ListPage(), {}))["items"]
    assert len(letters) == number and len({row["fingerprint"] for row in letters}) == 1
    return Group(letters[0]["fingerprint"])


async def test_a_group_is_previewed_from_the_ledger_and_nothing_is_written(deploy: Deploy) -> None:
    world = await deploy(app)
    group = await kill_some(world, 3)
    seen = await replays.preview_group(
        desk_of(world), group, actor="olga", values={"pieces": 5}, per_minute=60, full=False
    )
    assert (seen["letters"], seen["owners"], seen["replay_from"]) == (3, 2, "send")
    assert (seen["stages_kept"], seen["effects_kept"], seen["cost_kept_micros"]) == ({"charge": 3}, 3, 2_100)
    assert seen["effects_in_doubt"] == 0
    assert seen["changes"] == [{"path": "pieces", "before": 6, "after": 5}]
    assert (seen["sampled"], seen["refused"], seen["gate"]) == (3, [], "closed")
    assert seen["last_begins_at"] == iso(world.kernel.now() + 2_000), "the first begins now, one a second"
    as_it_was = await replays.preview_group(desk_of(world), group, actor="olga")
    assert (as_it_was["sampled"], as_it_was["changes"]) == (0, [])
    assert as_it_was["last_begins_at"] == iso(world.kernel.now()), "with no rate all begin at once"
    wrong = await replays.preview_group(desk_of(world), group, actor="olga", values={"pieces": "many"}, full=True)
    assert len(wrong["refused"]) == 3 and wrong["cost_again_micros"] == 2_100
    states = {row["state"] for row in (await list_letters(desk_of(world), ListPage(), {}))["items"]}
    assert states == {"open"} and (await replays.list_replays(desk_of(world), ListPage()))["items"] == []
    with pytest.raises(NotFound, match="nothing-like-it"):
        await replays.preview_group(desk_of(world), Group("nothing-like-it"), actor="olga")


async def test_a_group_is_replayed_at_its_rate_with_a_pause_and_ends_by_itself(deploy: Deploy) -> None:
    world = await deploy(app)
    desk = desk_of(world)
    group = await kill_some(world, 5)
    begun = await replays.begin_replay(
        desk, group, actor="olga", values={"pieces": 5}, evidence="asked the buyers", per_minute=60
    )
    assert (begun["letters"], begun["outcomes"], begun["state"]) == (5, {"waiting": 5}, "running")
    with pytest.raises(NotAllowed, match="has not ended yet"):
        await replays.begin_replay(desk, group, actor="olga")
    await replays.replay_some(world.kernel)
    await replays.replay_some(world.kernel)
    assert (await replays.show_replay(desk, begun["id"]))["outcomes"] == {"waiting": 4, "queued": 1}, "one a second"
    world.clock.advance(2)
    await replays.replay_some(world.kernel)
    await replays.steer_replay(desk, begun["id"], "pause", actor="ben")
    world.clock.advance(60)
    assert await replays.replay_some(world.kernel) == 0
    await world.run_until_idle()
    shown = await replays.show_replay(desk, begun["id"])
    assert (shown["state"], shown["outcomes"]) == ("paused", {"waiting": 2, "succeeded": 3})
    await replays.steer_replay(desk, begun["id"], "resume", actor="ben")
    await replays.replay_some(world.kernel)
    outcomes = (await replays.show_replay(desk, begun["id"]))["outcomes"]
    assert outcomes["waiting"] == 1, "what was missed in the pause is not sent at once"
    world.clock.advance(1)
    await replays.replay_some(world.kernel)
    await world.run_until_idle()
    ended = await replays.show_replay(desk, begun["id"])
    assert (ended["state"], ended["outcomes"], ended["troubles"]) == ("done", {"succeeded": 5}, [])
    with pytest.raises(NotAllowed, match="is done cannot be paused"):
        await replays.steer_replay(desk, begun["id"], "pause", actor="ben")


async def test_a_stop_leaves_the_rest_as_it_was_and_deaths_are_shown(deploy: Deploy) -> None:
    world = await deploy(app)
    desk = desk_of(world)
    group = await kill_some(world, 3)
    begun = await replays.begin_replay(desk, group, actor="olga", per_minute=60)
    await replays.replay_some(world.kernel)
    await replays.steer_replay(desk, begun["id"], "stop", actor="olga")
    world.clock.advance(10)
    assert await replays.replay_some(world.kernel) == 0
    await world.run_until_idle()
    shown = await replays.show_replay(desk, begun["id"])
    assert (shown["state"], shown["outcomes"]) == ("stopped", {"waiting": 2, "dead": 1})
    assert [row["detail"] for row in shown["troubles"]] == ["Six is too many."]
    states = sorted(row["state"] for row in (await list_letters(desk, ListPage(), {}))["items"])
    assert states == ["escalated", "open", "open"]


async def test_a_letter_that_somebody_replayed_meanwhile_is_not_replayed_again(deploy: Deploy) -> None:
    world = await deploy(app)
    desk = desk_of(world)
    group = await kill_some(world, 2)
    begun = await replays.begin_replay(desk, group, actor="olga")
    async with world.kernel.store.reading() as tx:
        first, second = await table.upcoming(tx, begun["id"], 10)
    await mend_and_replay(desk, first.id, actor="ben")  # as a process does that dies before the mark
    await world.run_until_idle()
    await triage(world.kernel, second.id, cause=Cause.DATA, actor="ben")
    assert await replays.replay_some(world.kernel) == 2
    await world.run_until_idle()
    assert (await show_letter(desk, first.id))["replays"] == 1
    assert (await show_letter(desk, second.id))["replays"] == 1
    shown = await replays.show_replay(desk, begun["id"])
    assert (shown["state"], shown["outcomes"]) == ("done", {"dead": 2})

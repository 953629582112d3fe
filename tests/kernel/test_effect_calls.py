"""Every call is told once: a send that went well by its effect's row, all others by a row of their own."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.provider import EffectClass
from holdfast.errors import StoreConflict
from holdfast.operator.spending import spending
from holdfast.tables import calls, effects, rollups
from holdfast.testing import World
from tests.kernel.places import Deploy, rows
from tests.kernel.post import Post, row_of, started

WRITTEN = "SELECT outcome FROM holdfast_calls ORDER BY id"


async def told(world: World, job_id: str) -> list[tuple[str, int, str]]:
    async with world.kernel.store.reading() as tx:
        found = await calls.of_job(tx, job_id)
    return [(row.stage, row.attempt, row.outcome) for row in found]


@pytest.mark.spec("K12")
async def test_a_send_that_went_well_is_told_by_its_effect_and_written_once(deploy: Deploy) -> None:
    post = Post("token")
    world, job_id = await started(deploy, post)
    world.script(post.provider, server_errors=1)
    await world.run_until_idle()
    assert await told(world, job_id) == [("send", 1, "ambiguous"), ("send", 2, "ok")]
    assert [row["outcome"] for row in await rows(world.kernel.store, WRITTEN)] == ["ambiguous"]
    (day,) = await spending(world.kernel, 0)
    assert (day["provider"], day["calls"], day["failed"]) == (post.provider.name, 2, 1)
    async with world.kernel.store.reading() as tx:
        charted = [cell for cell in await rollups.read(tx, 0, 1_000_000_000) if cell.series == "call"]
    assert sorted(cell.result for cell in charted) == ["ambiguous", "ok"]


@pytest.mark.spec("K12")
async def test_what_a_lookup_found_tells_of_no_call_that_was_not_seen_to_end(deploy: Deploy) -> None:
    post = Post("lookup", lookup=True)
    world, job_id = await started(deploy, post)
    world.script(post.provider, timeout_after_effect=1)
    await world.run_until_idle()
    assert (await row_of(world))["status"] == "sent" and (await row_of(world))["sends"] == 1
    assert [outcome for _, _, outcome in await told(world, job_id)] == ["ambiguous", "ok"], "the send, the lookup"
    assert len(await rows(world.kernel.store, WRITTEN)) == 2


@pytest.mark.spec("K12")
@pytest.mark.parametrize("kind", ["token", "neither"])
async def test_an_effect_that_another_process_writes_of_at_this_moment_is_read_first(
    deploy: Deploy, kind: EffectClass, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The insert of a new effect meets another's: nothing is written by it, and the long way finds what is there."""
    post = Post(kind)
    world, job_id = await started(deploy, post)
    met = list[Any]()

    async def begin_new(tx: Any, plans: Any, now: int) -> set[str]:
        met.append(plans)
        raise StoreConflict("another process has this row already")

    monkeypatch.setattr(effects, "begin_new", begin_new)
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded" and len(met) == 1
    assert post.delivered == 1 and (await row_of(world))["sends"] == 1

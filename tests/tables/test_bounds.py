"""Where a statement begins and ends: the row just inside is taken, the one just outside is left."""

from __future__ import annotations

import pytest

from holdfast.core.floor import BOTTOM
from holdfast.tables import depth, effects, jobs, joins, lanes, ops, outbox, providers, schedules, workers
from tests.kernel.places import Deploy
from tests.tables.families import both
from tests.tables.test_fences import app
from tests.tables.test_rare_rows import write

pytestmark = pytest.mark.spec("K3", "K17")


async def test_what_is_asked_from_a_floor_or_after_a_row_begins_there(deploy: Deploy) -> None:
    world = await deploy(app)
    a, b = await both(world)
    async with world.kernel.store.reading() as tx:
        lag = await outbox.lag(tx)
        assert (lag.pending, lag.oldest) == (2, a.at), "the oldest, not the newest"
        assert (await outbox.lag(tx, b.at)).pending == 1
        assert (await outbox.lag(tx, b.at + 1)).pending == 0
        assert [job.id for job, _ in await joins.unended(tx, a.named("join"), 9, a.running)] == []
        assert [row.id for row in await joins.outcomes(tx, a.named("join"), a.running, 9)] == []
        assert await joins.of_stage(tx, a.claimed._replace(epoch=1)) == {}
        assert await joins.of_stage(tx, a.claimed._replace(stage="else")) == {}
        assert [len(await workers.declaring(tx, a.named("queue"), since)) for since in (a.at, a.at + 1)] == [1, 0]
        assert await schedules.is_live(tx, a.named("kind"), a.named("live"))
        assert not await schedules.is_live(tx, b.named("kind"), a.named("live"))
        assert not await schedules.is_live(tx, a.named("kind"), a.named("dead")), "it has ended"
        held = await depth.processing(tx, BOTTOM)
        assert sorted(row.queue for row in held) == [a.named("queue"), b.named("queue")]
        assert [row.gate for row in await ops.gate_changes(tx, a.at, b.at, 9)] == ["open"], "until is not included"


async def test_only_the_attempt_that_was_seen_is_parked(deploy: Deploy) -> None:
    world = await deploy(app)
    a, b = await both(world)
    await write(
        world,
        "UPDATE holdfast_jobs SET state = 'queued', lease_owner = NULL, lease_until = NULL WHERE state = 'processing'",
    )
    async with world.kernel.store.transaction() as tx:
        await lanes.park(tx, {a.running: (1, "breaker"), b.running: (2, "breaker")}, world.kernel.now())
        shown = [await jobs.show(tx, one.running) for one in (a, b)]
    assert [row.parked for row in shown if row is not None] == [1, 0]


async def test_a_worker_that_names_no_release_cannot_be_drained(deploy: Deploy) -> None:
    world = await deploy(app)
    async with world.kernel.store.transaction() as tx:
        await workers.seen(tx, "old", "q", 0, world.kernel.now())
        assert not await workers.drain(tx, "old", world.kernel.now())
        assert not await workers.drain(tx, "nobody", world.kernel.now())


async def test_a_page_of_what_was_sent_begins_after_the_last_key(deploy: Deploy) -> None:
    world = await deploy(app)
    a, b = await both(world)
    await write(world, "UPDATE holdfast_effects SET status = 'sent', provider_id = 'm', provider = 'post'")
    async with world.kernel.store.reading() as tx:
        pages = [await effects.page(tx, "post", after, 9) for after in ("", a.named("effect"), b.named("effect"))]
    assert [[row.key for row in page] for page in pages] == [
        [a.named("effect"), b.named("effect")],
        [b.named("effect")],
        [],
    ]


async def test_whoever_looks_learns_of_every_sort_of_news(deploy: Deploy) -> None:
    world = await deploy(app)
    a, _ = await both(world)
    async with world.kernel.store.transaction() as tx:
        before = await ops.mark(tx)
        await outbox.put(tx, [(world.kernel.new_id(), "x", "there", "told", "{}", "{}")], world.kernel.now())
        told = await ops.mark(tx)
        await providers.log(tx, a.named("provider"), "closed", "", world.kernel.now())
        moved = await ops.mark(tx)
    assert len({before, told, moved}) == 3

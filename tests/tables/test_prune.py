"""Retention: what is old goes in bounded batches; what somebody may still need stays."""

from __future__ import annotations

import pytest

from holdfast import App, Context, Discard, Job, stage
from holdfast.kernel import operate
from holdfast.kernel.upkeep import prune as pruning
from holdfast.kernel.upkeep.prune import prune_once
from holdfast.tables import idempotency, inbox, outbox
from holdfast.testing import World
from tests.kernel.places import Deploy, rows, take

app = App("old")
DAY_S = 86_400


@app.job()
class Task(Job[str]):
    @stage()
    async def run(self, ctx: Context, text: str) -> str | Discard:
        return Discard("no") if text == "bad" else text


async def count(world: World, table: str) -> int:
    return int((await rows(world.kernel.store, f"SELECT COUNT(*) AS n FROM holdfast_{table}"))[0]["n"])


@pytest.mark.spec("K18")
async def test_old_finished_jobs_go_with_all_that_hangs_on_them(deploy: Deploy) -> None:
    world = await deploy(app)
    old = await world.enqueue(Task, "x")
    await world.run_until_idle()
    world.clock.advance(29 * DAY_S)
    assert await prune_once(world.kernel) == 0
    fresh = await world.enqueue(Task, "x")
    await world.run_until_idle()
    world.clock.advance(1 * DAY_S + 1)
    assert await prune_once(world.kernel) == 1
    left = await rows(world.kernel.store, "SELECT CAST(id AS TEXT) AS id FROM holdfast_jobs")
    assert left == [{"id": fresh}] and await world.events(old) == [] and await world.results(old) == {}


@pytest.mark.spec("K18", "K7")
async def test_a_dead_job_stays_until_its_case_is_resolved(deploy: Deploy) -> None:
    world = await deploy(app)
    await world.enqueue(Task, "bad")
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    world.clock.advance(400 * DAY_S)
    assert await prune_once(world.kernel) == 0 and await count(world, "dead_letters") == 1
    await operate.resolve(world.kernel, letter["id"], without_replay="never mind", actor="ann")
    world.clock.advance(pruning.LOOK_S)
    assert await prune_once(world.kernel) == 1, "what was passed over is seen again when the look comes round"
    assert [await count(world, table) for table in ("jobs", "dead_letters", "job_events")] == [0, 0, 0]
    assert await count(world, "audit") == 2, "who did what is not forgotten"


@pytest.mark.spec("K18")
async def test_live_jobs_stay_however_old(deploy: Deploy) -> None:
    world = await deploy(app)
    await world.enqueue(Task, "later", delay_s=500 * DAY_S)
    await world.enqueue(Task, "held")
    await take(world.kernel)
    world.clock.advance(400 * DAY_S)
    assert await prune_once(world.kernel) == 0 and await count(world, "jobs") == 2


@pytest.mark.spec("K18")
async def test_a_batch_is_bounded_and_the_next_goes_on(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "BATCH", 4)
    world = await deploy(app)
    for number in range(10):
        await world.enqueue(Task, str(number))
    await world.run_until_idle()
    world.clock.advance(31 * DAY_S)
    assert [await prune_once(world.kernel) for _ in range(4)] == [4, 4, 2, 0]


@pytest.mark.spec("K18", "K10", "K11")
async def test_published_messages_go_and_unpublished_stay_and_the_inbox_remembers_longer(deploy: Deploy) -> None:
    world = await deploy(app)
    kernel = world.kernel
    async with kernel.store.transaction() as tx:
        await outbox.put(tx, [(kernel.new_uuid4(), a, "q", "t", "{}", "{}") for a in "ab"], kernel.now())
        (first, _) = await outbox.claim(tx, "token", kernel.now(), kernel.now() + 1, 2)
        assert await outbox.published(tx, "token", [first.seq], kernel.now()) == 1
        assert await inbox.accept(tx, "c", "m1", "f", kernel.now())
        assert await idempotency.reserve(tx, "ann", "k1", "f", kernel.now())
    world.clock.advance(31 * DAY_S)
    assert await prune_once(kernel) == 1
    assert [await count(world, table) for table in ("outbox", "inbox", "idempotency")] == [1, 1, 1]
    world.clock.advance(60 * DAY_S)
    assert await prune_once(kernel) == 2
    assert [await count(world, table) for table in ("outbox", "inbox", "idempotency")] == [1, 0, 0]

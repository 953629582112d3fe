"""Schedules: each tick is enqueued once, however many workers run, and a missed stretch is caught up with one job."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from holdfast import App, Context, Job, stage
from holdfast.errors import BadDeclaration, InvalidInput, NotFound
from holdfast.kernel.upkeep.schedule import (
    LOOK_S,
    add_schedule,
    announce_schedules,
    next_tick,
    pause_schedule,
    remove_schedule,
    schedule_once,
    until_tick_s,
)
from holdfast.tables import schedules
from holdfast.testing import HandClock
from tests.kernel.places import Deploy, Place, close_all, rows


def clockwork(cron: str = "*/5 * * * *", payload: str = "tick") -> App:
    app = App("cron")

    @app.job()
    class Tick(Job[str]):
        @stage()
        async def run(self, ctx: Context, text: str) -> None: ...

    app.schedule(cron, Tick, payload, name="every-five")
    return app


JOBS = "SELECT COUNT(*) AS n FROM holdfast_jobs"


@pytest.mark.spec("K18")
async def test_two_schedulers_enqueue_each_tick_once(place: Place, clock: HandClock) -> None:
    kernels = [place.kernel(clockwork(), clock=clock, seed=n) for n in range(3)]
    for kernel in kernels:
        await announce_schedules(kernel)
    assert await schedule_once(kernels[0]) == 0
    for tick in range(1, 5):
        clock.advance(300)
        done = await asyncio.gather(*[schedule_once(kernel) for kernel in kernels])
        assert sum(done) == 1
        assert await rows(kernels[0].store, JOBS) == [{"n": tick}]
    await close_all(place)


@pytest.mark.spec("K18", "K28")
async def test_a_keeper_looks_again_at_the_next_tick_and_seldom_without_one(place: Place, clock: HandClock) -> None:
    """Once a second for ever was a tenth of what twenty idle workers ask."""
    kernel = place.kernel(clockwork(), clock=clock)
    assert until_tick_s(kernel) == LOOK_S, "nothing is known yet"
    await announce_schedules(kernel)
    assert await schedule_once(kernel) == 0 and until_tick_s(kernel) == LOOK_S, "the tick is minutes away"
    async with kernel.store.reading() as tx:
        (row,) = await schedules.read_every(tx)
    clock.advance((row.next_at - clock.now_ms()) / 1_000 - 4)
    assert until_tick_s(kernel) == 4
    clock.advance(5)
    assert until_tick_s(kernel) == kernel.tuning.schedule_s, "it is due"
    ringing = kernel.store.listen("schedules")
    for paused in (True, False):
        await pause_schedule(kernel, "every-five", paused=paused, actor="ann")
        assert await ringing.wait(10), "who changes one rings"
    ringing.close()
    await close_all(place)


@pytest.mark.spec("K18")
async def test_a_missed_stretch_is_caught_up_with_one_job(deploy: Deploy) -> None:
    world = await deploy(clockwork())
    world.clock.advance(3_600)
    assert [await schedule_once(world.kernel) for _ in range(3)] == [1, 0, 0]
    async with world.kernel.store.reading() as tx:
        (row,) = await schedules.read_every(tx)
    assert row.next_at == world.clock.now_ms() + 300_000


@pytest.mark.spec("K18")
async def test_announcing_again_moves_nothing_and_a_changed_cron_takes_effect(place: Place, clock: HandClock) -> None:
    kernel = place.kernel(clockwork(), clock=clock)
    await announce_schedules(kernel)
    clock.advance(299)
    await announce_schedules(kernel)
    clock.advance(1)
    assert await schedule_once(kernel) == 1
    changed = place.kernel(clockwork("0 0 * * *", "daily"), clock=clock)
    await announce_schedules(changed)
    clock.advance(3_600)
    assert await schedule_once(changed) == 0
    clock.advance(86_400)
    assert await schedule_once(changed) == 1
    found = await rows(kernel.store, "SELECT payload FROM holdfast_jobs ORDER BY created_at")
    assert [row["payload"] for row in found] == ['"tick"', '"daily"']
    await close_all(place)


@pytest.mark.spec("K18")
def test_a_cron_that_makes_no_sense_is_refused_where_it_is_declared() -> None:
    for cron in ("every day", "61 * * * *", "* * * *"):
        with pytest.raises(BadDeclaration, match="cron"):
            clockwork(cron)
    assert next_tick("0 3 * * *", 0) == 3 * 3_600_000


@pytest.mark.spec("K18")
async def test_a_schedule_has_a_time_zone_a_jitter_and_a_rule_for_overlaps(deploy: Deploy) -> None:
    """New York's clocks go forward on 8 March 2026: noon there is 17:00, then 16:00."""
    app = App("zones")

    @app.job()
    class Slow(Job[str]):
        @stage()
        async def run(self, ctx: Context, text: str) -> None: ...

    app.schedule("0 12 * * *", Slow, "x", name="noon", timezone="America/New_York", jitter_s=60, overlap="skip")
    march_7 = 1_772_841_600_000
    first = next_tick("0 12 * * *", march_7, "America/New_York")
    second = next_tick("0 12 * * *", first, "America/New_York")
    assert (first - march_7, second - first) == (17 * 3_600_000, 23 * 3_600_000)
    world = await deploy(app)
    await announce_schedules(world.kernel)
    made = "SELECT run_at, created_at FROM holdfast_jobs ORDER BY created_at"
    for _ in range(2):
        world.clock.advance(86_400)
        await schedule_once(world.kernel)
    (only,) = await rows(world.kernel.store, made)
    assert 0 <= only["run_at"] - only["created_at"] <= 60_000, "the tick after it is left out: the job has not ended"
    world.clock.advance(60)
    await world.work()
    world.clock.advance(86_400)
    await schedule_once(world.kernel)
    assert len(await rows(world.kernel.store, made)) == 2
    for bad in ({"timezone": "Mars/Base"}, {"jitter_s": -1}, {"overlap": "maybe"}):
        with pytest.raises(BadDeclaration):
            app.schedule("0 12 * * *", Slow, "x", name="bad", **bad)  # type: ignore[arg-type]


@pytest.mark.spec("K18")
async def test_schedules_are_added_paused_and_removed_while_all_is_running(deploy: Deploy) -> None:
    app = clockwork()
    world = await deploy(app)
    kernel = world.kernel
    await announce_schedules(kernel)
    await add_schedule(kernel, "own", "* * * * *", "cron.tick", '"mine"', actor="ann", jitter_s=2.5, overlap="skip")
    (own,) = await rows(kernel.store, "SELECT jitter_ms, overlap, added FROM holdfast_schedules WHERE name = 'own'")
    assert own == {"jitter_ms": 2_500, "overlap": "skip", "added": 1}
    with pytest.raises(InvalidInput, match="declared in the code"):
        await add_schedule(kernel, "every-five", "* * * * *", "cron.tick", '"mine"', actor="ann")
    await pause_schedule(kernel, "every-five", paused=True, actor="ann")
    await announce_schedules(kernel)
    world.clock.advance(600)
    assert await schedule_once(kernel) == 1, "a pause outlives a restart"
    await pause_schedule(kernel, "every-five", paused=False, actor="ann")
    assert await schedule_once(kernel) == 0, "what was missed is not caught up"
    await remove_schedule(kernel, "own", actor="ann")
    with pytest.raises(NotFound):
        await remove_schedule(kernel, "every-five", actor="ann")
    world.clock.advance(300)
    assert await schedule_once(kernel) == 1
    done = await rows(kernel.store, "SELECT action FROM holdfast_audit ORDER BY seq")
    assert [one["action"] for one in done] == [f"schedule.{act}" for act in ("added", "paused", "resumed", "removed")]


@dataclass
class Euros:
    euros: int


@dataclass
class Cents:
    cents: int


def in_euros() -> App:
    app = App("cron")

    @app.job()
    class Bill(Job[Euros]):
        @stage()
        async def run(self, ctx: Context, bill: Euros) -> None: ...

    app.schedule("* * * * *", Bill, Euros(1), name="bill")
    return app


def in_cents() -> App:
    app = App("cron")

    @app.job(version=2, upgrade={1: lambda v1: {"cents": 100 * v1["euros"]}})
    class Bill(Job[Cents]):
        @stage()
        async def run(self, ctx: Context, bill: Cents) -> None: ...

    app.schedule("* * * * *", Bill, Cents(500), name="bill")
    return app


PAYLOADS = "SELECT payload, version FROM holdfast_jobs ORDER BY created_at, payload"


@pytest.mark.spec("K18", "K22")
async def test_each_release_enqueues_an_input_of_its_own_and_what_was_added_is_upgraded(
    place: Place, clock: HandClock
) -> None:
    """The process that looks may be of the release before the one that wrote the schedule last."""
    old, new = place.kernel(in_euros(), clock=clock), place.kernel(in_cents(), clock=clock, seed=2)
    await announce_schedules(old)
    await add_schedule(old, "own", "* * * * *", "cron.bill", '{"euros": 2}', actor="ann")
    await announce_schedules(new)
    clock.advance(60)
    assert await schedule_once(old) == 2
    clock.advance(60)
    assert await schedule_once(new) == 2
    found = [(row["payload"], row["version"]) for row in await rows(old.store, PAYLOADS)]
    assert found == [('{"euros":1}', 1), ('{"euros":2}', 1), ('{"cents":200}', 2), ('{"cents":500}', 2)]
    await close_all(place)


@pytest.mark.spec("K18", "K22")
async def test_what_a_release_cannot_enqueue_is_left_to_the_other_and_holds_up_nothing(
    place: Place, clock: HandClock
) -> None:
    old, new = place.kernel(in_euros(), clock=clock), place.kernel(in_cents(), clock=clock, seed=2)
    await announce_schedules(old)
    await add_schedule(new, "own", "* * * * *", "cron.bill", '{"cents": 5}', actor="ann")
    clock.advance(60)
    assert await schedule_once(old) == 1
    assert "euros: Field required" in old.duties["schedule 'own'"]
    assert await schedule_once(new) == 1
    assert [row["payload"] for row in await rows(old.store, PAYLOADS)] == ['{"cents":5}', '{"euros":1}']
    await close_all(place)


@pytest.mark.spec("K18")
async def test_what_the_code_names_no_more_is_enqueued_no_more_is_in_nobodys_way_and_can_be_removed(
    place: Place, clock: HandClock
) -> None:
    kernel, without = place.kernel(clockwork("* * * * *"), clock=clock), place.kernel(in_euros(), clock=clock, seed=3)
    await announce_schedules(kernel)
    await announce_schedules(without)
    clock.advance(60)
    async with kernel.store.reading() as tx:
        first = await schedules.upcoming(tx, without.registry.kinds, ["bill"], 1)
        assert [each.name for each in first] == ["bill"]
        assert await schedules.upcoming(tx, ["cron.tick"], ["bill"]) == []
    assert await schedule_once(without) == 1
    assert await schedule_once(kernel) == 1, "an older worker has the schedule still"
    await remove_schedule(without, "every-five", actor="ann")
    clock.advance(60)
    assert await schedule_once(kernel) == 0
    await close_all(place)

"""Schedules: each tick is enqueued once, however many workers run, and a missed stretch is caught up with one job."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import App, Context, Job, stage
from holdfast.errors import BadDeclaration
from holdfast.kernel.schedule import announce_schedules, next_tick, schedule_once
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


@pytest.mark.spec("K18")
async def test_a_missed_stretch_is_caught_up_with_one_job(deploy: Deploy) -> None:
    world = await deploy(clockwork())
    world.clock.advance(3_600)
    assert [await schedule_once(world.kernel) for _ in range(3)] == [1, 0, 0]
    async with world.kernel.store.reading() as tx:
        (row,) = await schedules.every(tx)
    assert row["next_at"] == world.clock.now_ms() + 300_000


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

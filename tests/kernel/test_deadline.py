"""Deadlines: swept by anyone, judged by the time of receipt, and late results that change nothing."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import App, Context, Done, Job, Wait, stage
from holdfast.core.outcome import Released
from holdfast.kernel.attempt import run_attempt
from holdfast.kernel.reap import reap_once, sweep_once
from holdfast.kernel.settle import Ending, LeasedJob
from holdfast.kernel.submit import submit
from holdfast.kernel.turn import end, turn
from holdfast.testing import HandClock, World
from tests.kernel.places import Deploy, Place, close_all, rows, take

app = App("deadlines")
ran: list[str] = []


@app.job(deadline_s=60)
class Urgent(Job[str]):
    @stage()
    async def run(self, ctx: Context, text: str) -> str | Wait:
        ran.append(ctx.job_id)
        return Wait(text, within_s=9_999) if text == "wait" else text


LATE = "SELECT stage, value FROM holdfast_results WHERE is_late = 1"


async def died_of(world: World) -> list[tuple[str, str]]:
    return [(row["error_class"], row["failure_reason"]) for row in await world.dead_letters()]


@pytest.mark.spec("K14")
async def test_the_sweep_ends_what_is_past_its_deadline_in_every_live_state(deploy: Deploy) -> None:
    world = await deploy(app)
    waiting = await world.enqueue(Urgent, "wait")
    await world.work()
    held = await world.enqueue(Urgent, "held")
    await take(world.kernel)
    queued = await world.enqueue(Urgent, "queued", delay_s=59)
    fine = await world.enqueue(Urgent, "fine", deadline_s=61)
    world.clock.advance(60)
    assert await sweep_once(world.kernel) == 0, "the instant of the deadline is in time"
    world.clock.advance(0.001)
    assert await sweep_once(world.kernel) == 3 and await sweep_once(world.kernel) == 0
    assert [await world.state(job_id) for job_id in (waiting, held, queued, fine)] == ["dead"] * 3 + ["queued"]
    assert await died_of(world) == [("DEADLINE_EXCEEDED", "deadline")] * 3
    assert (await world.events(queued))[-1] == "expired"


@pytest.mark.spec("K14")
async def test_sweeps_of_many_instances_end_each_job_once(place: Place, clock: HandClock) -> None:
    kernels = [place.kernel(app, clock=clock, seed=n) for n in range(3)]
    for number in range(30):
        await submit(kernels[0], Urgent, str(number))
    clock.advance(61)
    assert sum(await asyncio.gather(*[sweep_once(kernel) for kernel in kernels])) == 30
    found = await rows(kernels[0].store, "SELECT COUNT(*) AS n FROM holdfast_job_events WHERE type = 'expired'")
    letters = await rows(kernels[0].store, "SELECT COUNT(*) AS n, SUM(deaths) AS deaths FROM holdfast_dead_letters")
    assert found == [{"n": 30}] and (letters[0]["n"], int(letters[0]["deaths"])) == (30, 30)
    await close_all(place)


@pytest.mark.spec("K14")
@pytest.mark.parametrize("swept_first", [True, False])
async def test_a_result_after_the_deadline_is_kept_as_late_and_changes_nothing(
    deploy: Deploy, swept_first: bool
) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Urgent, "x")
    (job,) = await take(world.kernel)
    world.clock.advance(60.001)
    if swept_first:
        await sweep_once(world.kernel)
    async with world.kernel.store.transaction() as tx:
        accepted = await end(world.kernel, tx, [Ending(job, Done(), '"too late"')])
    assert accepted == (set() if swept_first else {job_id})
    assert await world.state(job_id) == "dead" and await died_of(world) == [("DEADLINE_EXCEEDED", "deadline")]
    assert await rows(world.kernel.store, LATE) == [{"stage": "run", "value": '"too late"'}]
    on_time = await rows(world.kernel.store, "SELECT value FROM holdfast_results WHERE is_late = 0")
    assert on_time == []


@pytest.mark.spec("K14")
async def test_a_result_decided_in_time_and_written_after_the_deadline_is_late(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Urgent, "x")
    (job,) = await take(world.kernel)
    world.clock.advance(59)

    async def stands_still(place: str) -> None:
        if place == "settle.before_commit":
            world.clock.advance(2)

    world.kernel.failpoint = stands_still
    await turn(world.kernel, "w1", (), [Ending(job, Done(), '"too late"')], 0)
    assert await world.state(job_id) == "dead" and await died_of(world) == [("DEADLINE_EXCEEDED", "deadline")]
    assert await rows(world.kernel.store, LATE) == [{"stage": "run", "value": '"too late"'}]


@pytest.mark.spec("K14")
async def test_a_result_at_the_very_deadline_is_in_time(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Urgent, "x")
    (job,) = await take(world.kernel)
    world.clock.advance(60)
    async with world.kernel.store.transaction() as tx:
        assert await end(world.kernel, tx, [Ending(job, Done(), '"x"')]) == {job_id}
    assert await world.state(job_id) == "succeeded"


@pytest.mark.spec("K14")
async def test_nothing_is_begun_after_the_deadline(deploy: Deploy) -> None:
    world = await deploy(app)
    ran.clear()
    await world.enqueue(Urgent, "x")
    world.clock.advance(61)
    await world.work()
    assert ran == [] and await died_of(world) == [("DEADLINE_EXCEEDED", "deadline")]


@pytest.mark.spec("K14", "K3")
async def test_a_lost_worker_past_the_deadline_ends_the_job_once(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Urgent, "x")
    (job,) = await take(world.kernel)
    world.clock.advance(61)
    await reap_once(world.kernel)
    await sweep_once(world.kernel)
    assert await run_attempt(world.kernel, LeasedJob(job)) is not None
    async with world.kernel.store.transaction() as tx:
        assert await end(world.kernel, tx, [Ending(job, Released())]) == set()
    assert await world.state(job_id) == "dead" and len(await died_of(world)) == 1


@pytest.mark.spec("K14", "K8")
@pytest.mark.parametrize("own_s", [None, 7])
async def test_every_replay_is_given_as_much_time_as_the_job_had(deploy: Deploy, own_s: int | None) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Urgent, "x", deadline_s=own_s)
    for _ in range(2):
        world.clock.advance(61)
        await sweep_once(world.kernel)
        (letter,) = await world.dead_letters()
        await world.mend_and_replay(letter["id"])
        assert (await world.job(job_id))["deadline_at"] == world.clock.now_ms() + 1_000 * (own_s or 60)
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded"

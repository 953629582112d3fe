"""A process whose loop stood still renews its own leases before it looks for those of the dead."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from dataclasses import replace

import pytest

from holdfast import App, Context, Job, stage
from holdfast.engines.renewal import LATE, Renewal
from holdfast.engines.run import _reap
from holdfast.engines.worker import Worker
from holdfast.errors import StoreBusy
from holdfast.stores.clock import SystemClock
from holdfast.stores.seam import IDLE_S
from holdfast.stores.statement import _statement
from holdfast.tables import audit, workers
from holdfast.testing import World
from tests.kernel.places import Deploy, Place, close_all, rows, take

app = App("still")
gates: dict[str, asyncio.Event] = {}
NOBODY_WRITES = _statement(
    "nobody_writes", {"sqlite": "UPDATE holdfast_jobs SET attempt = attempt", "postgres": "LOCK TABLE holdfast_jobs"}
)


@app.job()
class Long(Job[str]):
    @stage()
    async def work(self, ctx: Context, text: str) -> str:
        gates["begun"].set()
        await gates["go on"].wait()
        return text


@pytest.mark.spec("K3", "K27")
async def test_a_reaper_does_not_take_what_its_own_worker_holds(deploy: Deploy) -> None:
    gates.update({"begun": asyncio.Event(), "go on": asyncio.Event()})
    world: World = await deploy(app)
    job_id = await world.enqueue(Long, "x")
    worker, stop = Worker(world.kernel), asyncio.Event()
    running = asyncio.create_task(worker.run(stop))
    await asyncio.wait_for(gates["begun"].wait(), 10)
    world.clock.advance(world.kernel.tuning.lease_s * 2)
    worker._renewed_at = asyncio.get_running_loop().time() - 1_000  # as after a loop that stood still
    assert await _reap(world.kernel, [worker]) == 0
    assert await world.state(job_id) == "processing"
    gates["go on"].set()
    stop.set()
    await asyncio.wait_for(running, 30)
    assert await world.state(job_id) == "succeeded"


@pytest.mark.spec("K3", "K27")
async def test_a_loop_that_never_comes_back_does_not_keep_its_jobs(deploy: Deploy) -> None:
    """The thread that stands in for a blocked loop does so for `blocked_max_s`, and not a moment longer: for the lease,
    and for how long the worker's sign says that it holds."""
    world: World = await deploy(app)
    await world.enqueue(Long, "x")
    await take(world.kernel)
    async with world.kernel.store.transaction() as tx:
        await workers.seen(tx, "w1", "still", 1, world.clock.now_ms(), holds_until=1)
    tuning, renewal = world.kernel.tuning, Renewal(world.kernel, "w1", lambda: True)

    async def times() -> set[int]:
        text = "SELECT lease_until AS until FROM holdfast_jobs UNION ALL SELECT holds_until FROM holdfast_worker_signs"
        return {row["until"] for row in await rows(world.kernel.store, text)}

    async def renewed_after(blocked_s: float) -> bool:
        """Whether the lease is longer than before, when the loop has shown no sign for so long."""
        before = await times()
        world.clock.advance(1)
        now = time.monotonic()
        renewal._asked_at, renewal._renewed_at = now - blocked_s, now - 2 * LATE * tuning.renew_s
        await asyncio.to_thread(renewal._look, now, 0.0)
        return before.isdisjoint(await times())

    assert await renewed_after(tuning.blocked_max_s - 1)
    assert not await renewed_after(tuning.blocked_max_s + 1)
    await asyncio.to_thread(renewal._close)


@pytest.mark.spec("K3", "K23", "K27")
async def test_a_loop_that_stands_still_in_a_transaction_holds_up_no_other_writer(place: Place) -> None:
    """Where writers wait for one another, what it has open is ended after as long as PostgreSQL would wait."""
    kernel = place.kernel(app, clock=SystemClock())
    renewal, other = Renewal(kernel, "w1", lambda: True), place.open()
    renewal._renewed_at = time.monotonic() + 1_000

    async def stand_still(blocked_s: float) -> None:
        now = time.monotonic()
        renewal._asked_at = now - blocked_s
        await asyncio.to_thread(renewal._look, now, 0.0)

    async with kernel.store.transaction() as tx:
        await audit.write(tx, "test", "short", "note", None, 0)
        await stand_still(IDLE_S - 1)
    was_ended = pytest.raises(StoreBusy, match="was blocked") if place.dialect == "sqlite" else nullcontext()
    with was_ended:
        async with kernel.store.transaction() as tx:
            await audit.write(tx, "test", "long", "note", None, 0)
            await stand_still(IDLE_S + 1)
            async with other.transaction() as beside:
                await audit.write(beside, "test", "other", "note", None, 0)
    async with kernel.store.transaction() as tx:
        await audit.write(tx, "test", "later", "note", None, 0)
    written = [row["action"] for row in await rows(other, "SELECT action FROM holdfast_audit ORDER BY seq")]
    assert written == (
        ["short", "other", "later"] if place.dialect == "sqlite" else ["short", "long", "other", "later"]
    )
    await close_all(place)


@pytest.mark.spec("K3", "K27")
async def test_a_slow_renewal_is_waited_for_and_counts_from_its_beginning(deploy: Deploy) -> None:
    """A database that needs longer than the interval between renewals is still in time for the lease, which lasts from
    when it was asked: counted from the answer, the next one would be too late."""
    world: World = await deploy(app)
    world.kernel.tuning = replace(world.kernel.tuning, renew_s=0.05)
    await world.enqueue(Long, "x")
    await take(world.kernel)
    renewal = Renewal(world.kernel, "w1", lambda: True)
    async with world.kernel.store.transaction() as tx:
        await tx.rows(NOBODY_WRITES)
        now = time.monotonic()
        renewal._asked_at, renewal._renewed_at = now, now - 1
        looking = asyncio.create_task(asyncio.to_thread(renewal._look, now, 0.0))
        done, _ = await asyncio.wait({looking}, timeout=10 * world.kernel.tuning.renew_s)
        assert not done, "it gave up before the lease did"
        released_at = time.monotonic()
    await looking
    assert now <= renewal._renewed_at < released_at
    await asyncio.to_thread(renewal._close)

"""Takes back jobs whose worker is gone. Through the same door as everybody else: decide, settle, fence.

Why so: docs/decisions/0004-a-lost-worker-is-not-a-failure.md
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from holdfast.core.floor import BOTTOM
from holdfast.core.job import State
from holdfast.core.outcome import Lost, Overdue
from holdfast.errors import StoreDown
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.settle import Ending
from holdfast.kernel.turn import end, end_apart
from holdfast.stores.seam import Tx
from holdfast.tables import answers, leases

BATCH = 200
LEASE_SLACK_MS = 5_000
DEADLINE_SLACK_MS = 60_000
"""How far back a look goes again: what had ended by then and was not committed yet is seen after all."""
SWEEP_LOOK_S = 300.0


async def reap_once(kernel: Kernel, expire: Callable[[Tx], Awaitable[object]] | None = None) -> int:
    """Return expired leases to the queue, each counted as a lost worker; the third one buries the job. A lease that
    goes ahead of the time is over when its worker's own time is. `expire` ends leases in the same commit, those of
    workers that are known to be gone."""

    async def find(tx: Tx) -> list[Ending]:
        if expire is not None:
            await expire(tx)
        now = kernel.now()
        lost = await leases.expired(tx, kernel.queues, now, BATCH, scan.start or BOTTOM)
        scan.reached(now - LEASE_SLACK_MS if len(lost) < BATCH else lost[-1][2])
        beyond = now + int(kernel.tuning.lease_s * 1_000)
        deserted = await leases.deserted(tx, kernel.queues, now, BATCH, beyond)
        every = [*((job, provider) for job, provider, _ in lost), *deserted]
        return [Ending(job, Lost(), provider=provider) for job, provider in every]

    with kernel.floors.times("expired").scan(kernel.now) as scan:
        reaped = await _end(kernel, find, "reap.before_commit")
    if reaped:
        kernel.watch.count("lease_reclaims", reaped)
    return reaped


async def sweep_once(kernel: Kernel) -> int:
    """Fail what is past its deadline, and what nobody called back in time. Safe with many instances. Who waits
    inside of a stage goes on there instead (`kernel.wake`)."""

    async def find(tx: Tx) -> list[Ending]:
        now = kernel.now()
        late = await leases.overdue(tx, kernel.queues, now, BATCH, deadlines.start or BOTTOM)
        deadlines.reached(now - DEADLINE_SLACK_MS if len(late) < BATCH else late[-1][0].deadline_at or BOTTOM)
        ended = [Ending(job, Overdue(), expected=State(job.state), provider=provider) for job, provider in late]
        known = {job.id for job, _ in late}
        silent = await leases.unanswered(tx, kernel.queues, now, BATCH, callbacks.start or BOTTOM)
        callbacks.reached(now - DEADLINE_SLACK_MS if len(silent) < BATCH else silent[-1][0].run_at)
        known |= await answers.parked(tx, [job.id for job, _ in silent]) if silent else set()
        for job, provider in silent:
            if job.id not in known:
                ended.append(Ending(job, Overdue("CALLBACK_OVERDUE"), expected=State.WAITING, provider=provider))
        return ended

    floors = kernel.floors
    with (
        floors.times("overdue", every_s=SWEEP_LOOK_S).scan(kernel.now) as deadlines,
        floors.times("unanswered", every_s=SWEEP_LOOK_S).scan(kernel.now) as callbacks,
    ):
        return await _end(kernel, find, "sweep.before_commit")


async def _end(kernel: Kernel, find: Callable[[Tx], Awaitable[list[Ending]]], failpoint: str) -> int:
    """Find, lock and settle in one commit; if one of them cannot be written, each in a commit of its own."""
    ended: list[Ending] = []
    try:
        async with kernel.store.transaction() as tx:
            ended = await find(tx)
            if ended:
                await end(kernel, tx, ended)
                await kernel.failpoint(failpoint)
    except StoreDown:
        raise
    except Exception as error:  # one bad hook must not keep every other job's lease from being reclaimed
        if not ended:
            raise
        await end_apart(kernel, ended, error)
    return len(ended)

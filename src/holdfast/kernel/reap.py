"""Takes back jobs whose worker is gone. Through the same door as everybody else: decide, settle, fence."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from holdfast.core.job import State
from holdfast.core.outcome import Lost, Overdue
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.settle import Settlement
from holdfast.kernel.turn import AWAY, end, end_apart
from holdfast.stores.seam import Tx
from holdfast.tables import answers, jobs

BATCH = 200


async def reap_once(kernel: Kernel) -> int:
    """Return expired leases to the queue, each counted as a lost worker; the third one buries the job."""

    async def find(tx: Tx) -> list[Settlement]:
        lost = await jobs.expired(tx, kernel.registry.queues, kernel.now(), BATCH)
        return [Settlement(job, Lost(), provider=provider) for job, provider in lost]

    reaped = await _end(kernel, find, "reap.before_commit")
    if reaped:
        kernel.watch.count("lease_reclaims", reaped)
    return reaped


async def sweep_once(kernel: Kernel) -> int:
    """Fail what is past its deadline, and what nobody called back in time. Safe with many instances. Who waits
    inside of a stage goes on there instead (`kernel.wake`)."""

    async def find(tx: Tx) -> list[Settlement]:
        now = kernel.now()
        late = await jobs.overdue(tx, kernel.registry.queues, now, BATCH)
        ended = [Settlement(job, Overdue(), expected=State(job.state), provider=provider) for job, provider in late]
        known = {job.id for job, _ in late}
        unanswered = await jobs.unanswered(tx, kernel.registry.queues, now, BATCH)
        known |= await answers.parked(tx, [job.id for job, _ in unanswered]) if unanswered else set()
        for job, provider in unanswered:
            if job.id not in known:
                ended.append(Settlement(job, Overdue("CALLBACK_OVERDUE"), expected=State.WAITING, provider=provider))
        return ended

    return await _end(kernel, find, "sweep.before_commit")


async def _end(kernel: Kernel, find: Callable[[Tx], Awaitable[list[Settlement]]], failpoint: str) -> int:
    """Find, lock and settle in one commit; if one of them cannot be written, each in a commit of its own."""
    ended: list[Settlement] = []
    try:
        async with kernel.store.transaction() as tx:
            ended = await find(tx)
            if ended:
                await end(kernel, tx, ended)
                await kernel.failpoint(failpoint)
    except AWAY:
        raise
    except Exception as error:  # one bad hook must not keep every other job's lease from being reclaimed
        if not ended:
            raise
        await end_apart(kernel, ended, error)
    return len(ended)

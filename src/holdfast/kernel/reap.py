"""Takes back jobs whose worker is gone. Through the same door as everybody else: decide, settle, fence."""

from __future__ import annotations

from holdfast.core.job import State
from holdfast.core.outcome import Lost, Overdue
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.settle import Settlement, settle
from holdfast.tables import jobs

BATCH = 200


async def reap_once(kernel: Kernel) -> int:
    """Return expired leases to the queue, each counted as a lost worker; the third one buries the job."""
    async with kernel.store.transaction() as tx:
        lost = await jobs.expired(tx, kernel.registry.queues, kernel.now(), BATCH)
        if not lost:
            return 0
        await settle(kernel, tx, [Settlement(job, Lost(), provider=provider) for job, provider in lost])
        await kernel.failpoint("reap.before_commit")
    kernel.watch.count("lease_reclaims", len(lost))
    return len(lost)


async def sweep_once(kernel: Kernel) -> int:
    """Fail what is past its deadline, and what nobody called back in time. Safe with many instances."""
    async with kernel.store.transaction() as tx:
        now = kernel.now()
        late = await jobs.overdue(tx, kernel.registry.queues, now, BATCH)
        ended = [Settlement(job, Overdue(), expected=State(job.state), provider=provider) for job, provider in late]
        known = {job.id for job, _ in late}
        for job, provider in await jobs.unanswered(tx, kernel.registry.queues, now, BATCH):
            if job.id not in known:
                ended.append(Settlement(job, Overdue("CALLBACK_OVERDUE"), expected=State.WAITING, provider=provider))
        if not ended:
            return 0
        await settle(kernel, tx, ended)
        await kernel.failpoint("sweep.before_commit")
    return len(ended)

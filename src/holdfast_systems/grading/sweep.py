"""Fails what is past its deadline. Many instances may sweep at once: each takes rows that no other holds."""

from __future__ import annotations

from holdfast.kit import Kernel
from holdfast_systems.grading import submissions
from holdfast_systems.grading.transitions import expire

BATCH = 200


async def sweep_timeouts(kernel: Kernel) -> int:
    """One bounded batch; returns how many submissions it failed."""
    async with kernel.store.transaction() as tx:
        now = kernel.now()
        late = await submissions.overdue(tx, now, BATCH)
        for stored in late:
            await submissions.change(kernel, tx, stored, expire(stored.state, now), now)
        await kernel.failpoint("sweep.before_commit")
    return len(late)

"""Forgets what is old enough, in bounded batches, so that no lock is held for long. Zero days keep everything.

The kernel prunes its own tables; here go the two services' own. What is not finished is never touched: a submission
that waits for an instructor, a request whose dead letter waits for an operator.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.kit import Kernel
from holdfast.kit.tables import batch, load_statements, secrets
from holdfast_systems.grading import attempts

sql = load_statements(Path(__file__).with_suffix(".sql"))

BATCH = 500
EVERY_S = 600.0
DAY_MS = 86_400_000


async def prune_submissions(kernel: Kernel, keep_days: float) -> int:
    """One batch of the main app's finished submissions, their events and callbacks; returns how many rows went."""
    if not keep_days:
        return 0
    before = kernel.now() - int(keep_days * DAY_MS)
    async with kernel.store.transaction() as tx:
        gone = [row["id"] for row in await tx.rows(sql.prune_submissions, before=before, limit=BATCH)]
        if gone:
            await tx.rows(sql.forget_events, gone=batch.ids(gone))
            await attempts.forget(tx, gone)
            await secrets.forget(tx, gone)
    async with kernel.store.transaction() as tx:
        callbacks = await tx.rows(sql.prune_callbacks, before=before, limit=BATCH)
        refused = await tx.rows(sql.prune_refused, before=before, limit=BATCH)
    return len(gone) + len(callbacks) + len(refused)


async def prune_requests(kernel: Kernel, keep_days: float) -> int:
    """One batch of the grading service's answered requests; returns how many went.

    A duplicate that comes later still is past its deadline, so it is refused without being graded."""
    if not keep_days:
        return 0
    before = kernel.now() - int(keep_days * DAY_MS)
    async with kernel.store.transaction() as tx:
        return len(await tx.rows(sql.prune_requests, before=before, limit=BATCH))


async def prune_originals(kernel: Kernel, keep_days: float) -> int:
    """One batch of the requests that dead letters refer to; returns how many went."""
    if not keep_days:
        return 0
    before = kernel.now() - int(keep_days * DAY_MS)
    async with kernel.store.transaction() as tx:
        return len(await tx.rows(sql.prune_originals, before=before, limit=BATCH))

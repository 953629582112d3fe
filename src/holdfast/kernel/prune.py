"""Forgets what is old enough, in bounded batches, so that no lock is held for long. Dead jobs stay until resolved."""

from __future__ import annotations

from holdfast.kernel.kernel import Kernel
from holdfast.stores.clock import SeededDice, uuid7
from holdfast.tables import answers, callbacks, calls, cases, events, idempotency, inbox, jobs, joins, outbox, results

BATCH = 200


async def prune_once(kernel: Kernel) -> int:
    """Delete one batch of each kind of old row; returns how many rows went. Call again while it returns more."""
    now = kernel.now()
    before = now - int(kernel.tuning.retention_s * 1_000)
    removed = await _prune_jobs(kernel, before)
    async with kernel.store.transaction() as tx:
        removed += await outbox.prune(tx, before, BATCH)
        removed += await calls.prune(tx, before, BATCH)
        removed += await answers.prune(tx, BATCH)
    kept_until = now - int(kernel.tuning.inbox_retention_s * 1_000)
    async with kernel.store.transaction() as tx:
        removed += await inbox.prune(tx, kept_until, BATCH)
        removed += await idempotency.prune(tx, kept_until, BATCH)
        removed += await callbacks.prune(tx, kept_until, BATCH)
    return removed


async def _prune_jobs(kernel: Kernel, before: int) -> int:
    """Ids sort by time, so the oldest rows are found along the primary key without an index of their own."""
    upto = uuid7(max(0, before), SeededDice(0))
    async with kernel.store.transaction() as tx:
        gone = await jobs.prune(tx, jobs.NIL, upto, before, BATCH)
        if gone:
            await events.forget(tx, gone)
            await results.forget(tx, gone)
            await answers.forget(tx, gone)
            await cases.forget(tx, gone)
            await joins.forget(tx, gone)
    return len(gone)

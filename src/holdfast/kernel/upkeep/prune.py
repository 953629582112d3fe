"""Forgets what is old enough, in bounded batches, so that no lock is held for long. Dead jobs stay until resolved.

Each table is gone through from where the batch before ended. What was passed over because somebody still needed it is
seen again when the look from the bottom comes round.

Why so: docs/decisions/0026-retention.md
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from holdfast.core.floor import BOTTOM, Floor
from holdfast.kernel.kernel import Kernel
from holdfast.stores.clock import SeededDice, uuid7
from holdfast.stores.seam import Tx
from holdfast.tables import (
    answers,
    callbacks,
    calls,
    cases,
    events,
    idempotency,
    inbox,
    jobs,
    joins,
    logs,
    outbox,
    results,
    search,
    secrets,
)

BATCH = 200
LOOK_S = 600.0
K = TypeVar("K", int, str)


async def prune_once(kernel: Kernel) -> int:
    """Delete one batch of each kind of old row; returns how many rows went. Call again while it returns more."""
    now = kernel.now()
    before = now - int(kernel.tuning.retention_s * 1_000)
    old = now - int(kernel.tuning.inbox_retention_s * 1_000)
    last = _last_id(before)

    def ids(table: str) -> Floor[str]:
        return kernel.floors.ids("prune", table, every_s=LOOK_S)

    def times(table: str) -> Floor[int]:
        return kernel.floors.times("prune", table, every_s=LOOK_S)

    return sum(
        [
            await _prune(kernel, ids("jobs"), lambda tx, start: _forget_jobs(tx, start or jobs.NIL, before), last),
            await _prune_outbox(kernel, times("outbox"), before),
            await _prune(
                kernel, ids("calls"), lambda tx, start: calls.prune(tx, start or jobs.NIL, last, before, BATCH), last
            ),
            await _prune(
                kernel, ids("answers"), lambda tx, start: answers.prune(tx, start or jobs.NIL, BATCH), _last_id(now)
            ),
            await _prune(kernel, times("inbox"), lambda tx, start: inbox.prune(tx, start or BOTTOM, old, BATCH), old),
            await _prune(
                kernel, times("keys"), lambda tx, start: idempotency.prune(tx, start or BOTTOM, old, BATCH), old
            ),
            await _prune(
                kernel, times("callbacks"), lambda tx, start: callbacks.prune(tx, start or BOTTOM, old, BATCH), old
            ),
        ]
    )


def _last_id(before: int) -> str:
    """Ids sort by time, so the oldest rows are found along the primary key without an index of their own."""
    return uuid7(max(0, before), SeededDice(0))


async def _prune(kernel: Kernel, floor: Floor[K], delete: Callable[[Tx, K | None], Awaitable[list[K]]], end: K) -> int:
    """One batch, from the floor on: up to the last that was deleted, or, if that was all, up to `end`."""
    with floor.scan(kernel.now) as scan:
        async with kernel.store.transaction() as tx:
            gone = await delete(tx, scan.start)
        scan.reached(gone[-1] if len(gone) >= BATCH else end)
    return len(gone)


async def _prune_outbox(kernel: Kernel, floor: Floor[int], before: int) -> int:
    """Messages have no id that sorts by time, but they are numbered."""
    with floor.scan(kernel.now) as scan:
        async with kernel.store.transaction() as tx:
            gone, last = await outbox.prune(tx, scan.start or BOTTOM, before, BATCH)
        scan.reached(last)
    return gone


async def _forget_jobs(tx: Tx, after: str, before: int) -> list[str]:
    gone = await jobs.prune(tx, after, _last_id(before), before, BATCH)
    if gone:
        await forget_rows(tx, gone)
    return gone


async def forget_rows(tx: Tx, job_ids: Sequence[str]) -> None:
    """Delete what belongs to jobs that are gone."""
    for table in (events, results, answers, cases, joins, secrets, search, logs):
        await table.forget(tx, job_ids)

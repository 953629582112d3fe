"""How much there is, counted so far and no further. Functions named as the statements in `depth.sql`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.stores.seam import Row, Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch

sql = load_statements(Path(__file__).with_suffix(".sql"))
COUNT_MAX = 10_000
"""A count that has come to this means: so many, or more."""


async def ready(tx: Tx, queue: str, priority: int, floor: int) -> Sequence[Row]:
    return await tx.rows(sql.ready, queue=queue, priority=priority, floor=floor, limit=COUNT_MAX)


async def later(tx: Tx, queue: str, now: int, floor: int) -> Sequence[Row]:
    return await tx.rows(sql.later, queue=queue, now=now, floor=floor, limit=COUNT_MAX)


async def in_line(tx: Tx, queue: str, priority: int, now: int, floor: int) -> Sequence[Row]:
    return await tx.rows(sql.in_line, queue=queue, priority=priority, now=now, floor=floor, limit=COUNT_MAX)


async def processing(tx: Tx, floor: int) -> Sequence[Row]:
    return await tx.rows(sql.processing, floor=floor, limit=COUNT_MAX)


async def waiting(tx: Tx, floor: int) -> Sequence[Row]:
    return await tx.rows(sql.waiting, floor=floor, limit=COUNT_MAX)


async def parked(tx: Tx, provider: str, floor: int) -> Sequence[Row]:
    return await tx.rows(sql.parked, provider=provider, floor=floor, limit=COUNT_MAX)


async def doubtful(tx: Tx, floor: int) -> Sequence[Row]:
    return await tx.rows(sql.doubtful, floor=floor, limit=COUNT_MAX)


async def letters(tx: Tx, state: str, floor: int) -> Sequence[Row]:
    return await tx.rows(sql.letters, state=state, floor=floor, limit=COUNT_MAX)


async def dying(tx: Tx, since: int) -> Sequence[Row]:
    """What jobs died of since then, as far as nobody has looked: the commonest first."""
    return await tx.rows(sql.dying, since=since, limit=COUNT_MAX)


async def finished_since(tx: Tx, since: int) -> Sequence[Row]:
    """What the last `COUNT_MAX` events ended, if that was since then."""
    return await tx.rows(sql.finished_since, since=since, limit=COUNT_MAX)


async def standing(tx: Tx, queues: Sequence[str]) -> Sequence[Row]:
    """How many live jobs of these queues stand at each kind, stage and version of input."""
    return await tx.rows(sql.standing, queues=batch.ids(queues))

"""Answers from outside that nobody waits for yet: kept until a job asks for them."""

from __future__ import annotations

from pathlib import Path

from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch

sql = load_statements(Path(__file__).with_suffix(".sql"))


async def put(tx: Tx, key: str, body: str, now: int) -> bool:
    """Keep an answer; False if there is one already."""
    return bool(await tx.rows(sql.put, key=key, body=batch.storable(body), now=now))


async def take(tx: Tx, key: str) -> str | None:
    """The kept answer, which is gone then; None if there is none."""
    rows = await tx.rows(sql.take, key=key)
    return str(rows[0]["body"]) if rows else None


async def is_kept(tx: Tx, key: str) -> bool:
    """Whether an answer of the key is there that no job has taken."""
    return bool(await tx.rows(sql.is_kept, key=key))


async def awaited(tx: Tx, limit: int, floor: int) -> list[tuple[str, int]]:
    """Keys that have an answer and a job that waits for it, by when the answer came."""
    return [(row["key"], row["received_at"]) for row in await tx.rows(sql.awaited, limit=limit, floor=floor)]


async def prune(tx: Tx, floor: int, before: int, limit: int) -> list[int]:
    """Forget a batch of the oldest; returns when each was received."""
    return sorted(row["received_at"] for row in await tx.rows(sql.prune, floor=floor, before=before, limit=limit))


async def waiter(tx: Tx, key: str) -> str | None:
    """The job that waits for an answer of the key."""
    rows = await tx.rows(sql.waiter, key=key)
    return str(rows[0]["id"]) if rows else None

"""Cron schedules: what to enqueue next, and when."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.stores.seam import Row, Tx
from holdfast.stores.statement import load_statements

sql = load_statements(Path(__file__).with_suffix(".sql"))


async def ensure(tx: Tx, name: str, cron: str, kind: str, payload: str, next_at: int, now: int) -> None:
    await tx.rows(sql.ensure, name=name, cron=cron, kind=kind, payload=payload, next_at=next_at, now=now)


async def due(tx: Tx, now: int, limit: int = 50) -> Sequence[Row]:
    return await tx.rows(sql.due, now=now, limit=limit)


async def advance(tx: Tx, name: str, expected: int, next_at: int, now: int) -> bool:
    return bool(await tx.rows(sql.advance, name=name, expected=expected, next_at=next_at, now=now))


async def every(tx: Tx) -> Sequence[Row]:
    return await tx.rows(sql.every)

"""A job's place in its queue, as a person changes it. Functions named as the statements in `places.sql`."""

from __future__ import annotations

from pathlib import Path

from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements

sql = load_statements(Path(__file__).with_suffix(".sql"))


async def set_priority(tx: Tx, job_id: str, priority: int, now: int) -> str | None:
    """The job's queue; None if it has ended."""
    rows = await tx.rows(sql.set_priority, id=job_id, priority=priority, now=now)
    return rows[0]["queue"] if rows else None


async def run_now(tx: Tx, job_id: str, now: int) -> str | None:
    """The job's queue; None if it is not queued for later, or a provider has asked to wait."""
    rows = await tx.rows(sql.run_now, id=job_id, now=now)
    return rows[0]["queue"] if rows else None


async def remove(tx: Tx, job_id: str) -> bool:
    return bool(await tx.rows(sql.remove, id=job_id))

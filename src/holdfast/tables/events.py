"""The append-only history of jobs. It begins with the job's own row: `created` is told from that, and never written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from holdfast.stores.seam import Row, Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch

sql = load_statements(Path(__file__).with_suffix(".sql"))

NewEvent = tuple[str, int, str, str | None]
"""Job id, attempt, type, data as JSON."""
BEGINNING = -1
"""Comes before every `seq`; that of `created` is 0."""


async def append(tx: Tx, events: Iterable[NewEvent], now: int) -> None:
    await tx.rows(sql.append, batch=batch.numbered(events), now=now)


async def append_once(tx: Tx, job_id: str, attempt: int, type: str, data: str, now: int) -> bool:
    """Append the event unless the job has one of the same type and data. The caller holds the job's row."""
    return bool(await tx.rows(sql.append_once, job_id=job_id, attempt=attempt, type=type, data=data, now=now))


async def of_job(tx: Tx, job_id: str, after: int = BEGINNING, limit: int = 1_000) -> Sequence[Row]:
    """A job's events in order, from the beginning or after a `seq`. Safe to tail: written under the job's row lock."""
    return await tx.rows(sql.of_job, job_id=job_id, after=after, limit=limit)


async def last_data(tx: Tx, job_id: str, type: str) -> str | None:
    """The data of a job's newest event of this type; None if it has none."""
    rows = await tx.rows(sql.last_data, job_id=job_id, type=type)
    return rows[0]["data"] if rows else None


async def failed_in_stage(tx: Tx, job_id: str) -> int:
    """How often the present stage was retried or lost its worker, since it began or the job was replayed."""
    return int((await tx.rows(sql.failed_in_stage, job_id=job_id))[0]["n"])


async def forget(tx: Tx, job_ids: Iterable[str]) -> None:
    await tx.rows(sql.forget, batch=batch.ids(job_ids))

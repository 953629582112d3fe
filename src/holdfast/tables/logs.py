"""What attempts logged. Functions named as the statements in `logs.sql`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from holdfast.stores.seam import Row, Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch

sql = load_statements(Path(__file__).with_suffix(".sql"))

NewLog = tuple[str, int, str]
"""Job id, attempt, the lines as JSON."""


async def put(tx: Tx, logs: Iterable[NewLog]) -> None:
    await tx.rows(sql.put, batch=batch.numbered(logs))


async def of_job(tx: Tx, job_id: str) -> Sequence[Row]:
    return await tx.rows(sql.of_job, job_id=job_id)


async def forget(tx: Tx, job_ids: Iterable[str]) -> None:
    await tx.rows(sql.forget, batch=batch.ids(job_ids))

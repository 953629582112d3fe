"""What attempts logged. Functions named as the statements in `logs.sql`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch

sql = load_statements(Path(__file__).with_suffix(".sql"))

NewLog = tuple[str, int, str]
"""Job id, attempt, the lines as JSON."""


async def put(tx: Tx, logs: Iterable[NewLog]) -> None:
    await tx.rows(sql.put, batch=batch.numbered(logs))


class AttemptLines(NamedTuple):
    attempt: int
    lines: str


async def of_job(tx: Tx, job_id: str) -> list[AttemptLines]:
    return await tx.rows(sql.of_job, into=AttemptLines, job_id=job_id)


async def forget(tx: Tx, job_ids: Iterable[str]) -> None:
    await tx.rows(sql.forget, batch=batch.ids(job_ids))

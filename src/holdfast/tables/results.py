"""What stages returned. A completed stage is read from here and never run again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch

sql = load_statements(Path(__file__).with_suffix(".sql"))

NewResult = tuple[str, str, int, int, str]
"""Job id, stage, attempt, is_late (0 or 1), value as JSON."""


async def put(tx: Tx, rows: Iterable[NewResult], now: int) -> None:
    """Store results; the first one of a stage stands."""
    await tx.rows(sql.put, batch=batch.numbered(rows), now=now)


class StageResult(NamedTuple):
    stage: str
    attempt: int
    is_late: int
    at: int
    value: str


async def of_job(tx: Tx, job_id: str) -> list[StageResult]:
    return await tx.rows(sql.of_job, into=StageResult, job_id=job_id)


async def of_jobs(tx: Tx, job_ids: Iterable[str]) -> dict[str, dict[str, str]]:
    """Results on time, by job and stage."""
    results: dict[str, dict[str, str]] = {}
    for row in await tx.rows(sql.of_jobs, batch=batch.ids(job_ids)):
        results.setdefault(row["job_id"], {})[row["stage"]] = row["value"]
    return results


async def clear(tx: Tx, job_id: str) -> None:
    await tx.rows(sql.clear, job_id=job_id)


async def clear_stages(tx: Tx, job_id: str, stages: Iterable[str]) -> None:
    """Forget what these stages returned, so that they run again."""
    await tx.rows(sql.clear_stages, job_id=job_id, stages=batch.ids(stages))


async def forget(tx: Tx, job_ids: Iterable[str]) -> None:
    await tx.rows(sql.forget, batch=batch.ids(job_ids))

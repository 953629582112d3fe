"""Every call to a provider: outcome, latency, cost. What an effect's row tells of its send is not written here too."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch


class NewCall(NamedTuple):
    id: str
    job_id: str | None
    stage: str | None
    attempt: int | None
    provider: str
    started_at: int
    duration_ms: int
    outcome: str
    status: int | None
    error_class: str | None
    cost_micros: int
    units: str | None


sql = load_statements(Path(__file__).with_suffix(".sql"), NewCall)


async def put(tx: Tx, calls: Iterable[NewCall]) -> None:
    """Write calls that nobody has tried to write before."""
    await tx.rows(sql.put, batch=batch.numbered(calls))


async def put_again(tx: Tx, calls: Iterable[NewCall]) -> set[str]:
    """Write what is not written yet; return the ids that were new."""
    return {row["id"] for row in await tx.rows(sql.put_again, batch=batch.numbered(calls))}


class JobCall(NamedTuple):
    """One call to a provider, as it is kept with its job."""

    stage: str
    attempt: int
    provider: str
    started_at: int
    duration_ms: int
    outcome: str
    status: int | None
    error_class: str | None
    cost_micros: int
    units: str | None


async def of_job(tx: Tx, job_id: str) -> list[JobCall]:
    return await tx.rows(sql.of_job, into=JobCall, job_id=job_id)


class DaySpending(NamedTuple):
    """A day's calls of one kind to one provider. A job that was pruned has no kind."""

    day: int
    provider: str
    kind: str | None
    calls: int
    failed: int
    cost_micros: int
    duration_ms: int


async def spending(tx: Tx, since: int) -> list[DaySpending]:
    return await tx.rows(sql.spending, into=DaySpending, since=since)


async def prune(tx: Tx, after: str, upto: str, before: int, limit: int) -> list[str]:
    """Forget a batch of the oldest; returns their ids in order."""
    return sorted(row["id"] for row in await tx.rows(sql.prune, after=after, upto=upto, before=before, limit=limit))

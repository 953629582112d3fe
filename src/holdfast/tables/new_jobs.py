"""New rows of the jobs table: alone, in a batch, and by the database's own bulk load. All three write the same row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.core.job import is_due
from holdfast.stores.seam import LoadingTx, Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch
from holdfast.tables.typed import fetch_first

sql = load_statements(Path(__file__).with_suffix(".sql"))


class NewJob(NamedTuple):
    """A row to insert, as its enqueuer knows it."""

    kind: str
    queue: str
    stage: str
    provider: str | None
    priority: int
    version: int
    run_at: int
    deadline_at: int | None
    job_key: str | None
    fingerprint: str | None
    owner: str | None
    trace: str | None
    join_id: str | None
    fair_key: str | None
    """Whose turn it must be before the job may be claimed; None: nobody's."""
    payload: str


TEXTS_AT = NewJob._fields.index("job_key")
LOADED = ("id", *NewJob._fields[:-1], "is_due", "parked", "hold", "created_at", "updated_at", "payload")


async def insert(tx: Tx, jobs: Mapping[str, NewJob], now: int) -> set[str]:
    """Insert what is new and wake its queues; return the ids that were. A taken id or key inserts nothing."""
    if tx.dialect == "postgres" and len(jobs) == 1:
        ((job_id, job),) = jobs.items()
        rows = await tx.rows(sql.insert_one, id=job_id, is_due=_is_due(job, now), now=now, **_storable(job))
    else:
        rows = await tx.rows(sql.insert, batch=batch.keyed(_rows(jobs, now)), now=now)
    added = {row["id"] for row in rows}
    if tx.dialect == "sqlite" and added:
        for queue in sorted({job.queue for job in jobs.values()}):
            await tx.notify(f"queue:{queue}")
    return added


def _rows(jobs: Mapping[str, NewJob], now: int) -> dict[str, tuple[Any, ...]]:
    """Each job in the order of the statement."""
    return {job_id: (*job[:TEXTS_AT], _is_due(job, now), *job[TEXTS_AT:]) for job_id, job in jobs.items()}


def _is_due(job: NewJob, now: int) -> int:
    """Whoever waits for a turn is let in by that, not by the clock alone."""
    return 1 if job.fair_key is not None else is_due(job.run_at, now)


def _loaded(job: NewJob) -> tuple[Any, ...]:
    """The columns before the payload, as `insert` writes them."""
    return (job if job.fair_key is None else job._replace(provider=None))[:-1]


def _parked(job: NewJob) -> tuple[int, str | None]:
    return (0, None) if job.fair_key is None else (1, "turn")


def _storable(job: NewJob) -> dict[str, Any]:
    """The row by column name; what strangers wrote as the database can hold it."""
    named = job._asdict()
    for name in ("job_key", "owner", "trace", "fair_key", "payload"):
        if named[name] is not None:
            named[name] = batch.storable(named[name])
    return named


async def load(tx: LoadingTx, jobs: Sequence[tuple[str, NewJob]], now: int) -> None:
    """`insert` of many new jobs by the database's own bulk load. `StoreConflict` if an id or key is there already."""
    await tx.load("holdfast_jobs", LOADED, _pieces(jobs, now))
    for queue in sorted({job.queue for _, job in jobs}):
        await tx.notify(f"queue:{queue}")


def _pieces(jobs: Sequence[tuple[str, NewJob]], now: int, rows: int = 200) -> Iterator[str]:
    """The text form of COPY, some rows at a time. Jobs of one bulk differ in little else than their payloads: the rest
    is written once. Some hundreds share a millisecond of creation, no more: claims go on from the last one that they
    took, and would walk over all of its equals. No bulk is written faster than that."""
    written: tuple[Any, ...] = ()
    middle = ""
    for start in range(0, len(jobs), rows):
        lines = []
        written, created_at = (), now + start // rows
        for job_id, job in jobs[start : start + rows]:
            if written != job[:-1]:
                written = job[:-1]
                columns = (*_loaded(job), _is_due(job, now), *_parked(job), created_at, now)
                middle = "\t".join(map(batch.copied, columns))
            lines.append(f"{job_id}\t{middle}\t{batch.copied(job.payload)}\n")
        yield batch.storable("".join(lines))


async def mark_done(tx: Tx, job_id: str, stages: Sequence[str]) -> None:
    """Say that a job which nobody has claimed yet has done these stages."""
    await tx.rows(sql.mark_done, id=job_id, done=",".join(stages))


class KnownJob(NamedTuple):
    """The job that has a key already."""

    id: str
    version: int
    fingerprint: str | None


async def by_key(tx: Tx, kind: str, job_key: str) -> KnownJob | None:
    return await fetch_first(KnownJob, tx, sql.by_key, kind=kind, job_key=job_key)

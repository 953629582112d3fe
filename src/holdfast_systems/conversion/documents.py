"""The documents table. Functions named as the statements in `documents.sql`; no other statement writes it.

A document's public status comes from its job as long as there is one, so that whatever moves the job (a worker, an
operator's replay, a sweep) moves the status with it. `outcome` speaks when the job has been forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.http.limits import Used
from holdfast.kit.tables import Row, Tx, batch, load_statements

sql = load_statements(Path(__file__).with_suffix(".sql"))

KIND = "conversion.convert"
LIVE = frozenset({"queued", "processing"})
STATUSES = {
    "queued": "queued",
    "waiting": "queued",
    "processing": "processing",
    "succeeded": "complete",
    "dead": "failed",
    "cancelled": "cancelled",
}
"""A job's state, as clients know it."""


@dataclass(frozen=True, slots=True)
class NewDocument:
    id: str
    owner: str
    filename: str
    source: str
    size: int
    sha256: str
    priority: int
    webhook_url: str | None = None


Needed = dict[str, str | None]
"""The jobs that need a file, with the hash of the one they need; None: any of theirs."""


def status_of(row: Row, now: int) -> str:
    """queued, processing, complete, failed, expired or cancelled. A result expires on time, swept or not."""
    status = STATUSES[row["state"]] if row["state"] is not None else str(row["outcome"])
    if status == "complete" and (row["outcome"] == "expired" or _past(row["expires_at"], now)):
        return "expired"
    return status


def _past(at: int | None, now: int) -> bool:
    return at is not None and at <= now


async def insert(tx: Tx, new: NewDocument, now: int) -> None:
    await tx.rows(
        sql.insert,
        id=new.id,
        owner=new.owner,
        filename=new.filename,
        source=new.source,
        size=new.size,
        sha256=new.sha256,
        priority=new.priority,
        webhook_url=new.webhook_url,
        now=now,
    )


async def show(tx: Tx, job_id: str) -> Row | None:
    rows = await tx.rows(sql.show, id=job_id)
    return rows[0] if rows else None


async def page(tx: Tx, owner: str, *, before: str | None = None, limit: int = 50) -> Sequence[Row]:
    return await tx.rows(sql.page, owner=owner, before=before, limit=limit)


async def usage(tx: Tx, owner: str, since: int) -> Used:
    row = (await tx.rows(sql.usage, owner=owner, since=since, kind=KIND))[0]
    return Used(row["uploads"], row["first_at"], row["unfinished"])


async def complete(tx: Tx, job_id: str, *, size: int, sha256: str, attempts: int, expires_at: int, now: int) -> None:
    await tx.rows(sql.complete, id=job_id, size=size, sha256=sha256, attempts=attempts, expires_at=expires_at, now=now)


async def fail(tx: Tx, job_id: str, *, code: str, message: str, attempts: int, source_until: int, now: int) -> None:
    await tx.rows(
        sql.fail, id=job_id, code=code, message=message, attempts=attempts, source_until=source_until, now=now
    )


async def cancel(tx: Tx, job_id: str, *, attempts: int, now: int) -> None:
    await tx.rows(sql.cancel, id=job_id, attempts=attempts, now=now)


async def put_back(tx: Tx, job_id: str, *, attempts: int, code: str | None, message: str | None, now: int) -> None:
    await tx.rows(sql.put_back, id=job_id, attempts=attempts, code=code, message=message, now=now)


async def requeue(tx: Tx, job_id: str, now: int) -> bool:
    """Clear what a failed job left. False if its source is gone."""
    return bool(await tx.rows(sql.requeue, id=job_id, now=now))


async def expiring(tx: Tx, now: int, limit: int) -> list[tuple[str, str]]:
    """Jobs whose results have had their time, each with its result's hash."""
    return [(row["id"], row["result_sha256"]) for row in await tx.rows(sql.expiring, now=now, limit=limit)]


async def expire(tx: Tx, job_id: str, now: int) -> bool:
    """True for the one caller that made it expire."""
    return bool(await tx.rows(sql.expire, id=job_id, now=now))


async def retire_sources(tx: Tx, now: int, limit: int) -> list[str]:
    """Declare sources gone that nobody needs; the caller then removes the files of these names."""
    return [row["source"] for row in await tx.rows(sql.retire_sources, now=now, limit=limit)]


async def needed_sources(tx: Tx, job_ids: Iterable[str]) -> Needed:
    return {row["id"]: row["sha256"] for row in await tx.rows(sql.needed_sources, batch=batch.ids(job_ids))}


async def needed_results(tx: Tx, job_ids: Iterable[str]) -> Needed:
    return {row["id"]: row["sha256"] for row in await tx.rows(sql.needed_results, batch=batch.ids(job_ids))}


async def forget(tx: Tx, before: int, limit: int) -> int:
    return len(await tx.rows(sql.forget, before=before, limit=limit))

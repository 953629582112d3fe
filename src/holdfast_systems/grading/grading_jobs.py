"""The requests the grading service has accepted, by their request id, each with its final answer once it has one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from holdfast.kit.tables import Row, Tx, load_statements
from holdfast_systems.grading.contract import GradingRequest

sql = load_statements(Path(__file__).with_suffix(".sql"))


class GradingJob(NamedTuple):
    """One accepted request. `answer` is the data of its final callback."""

    request_id: str
    job_id: str
    submission_id: str
    user_id: str
    skill: str
    attempt: int
    fingerprint: str
    trace_id: str | None
    status: Literal["running", "completed", "failed"]
    answer: dict[str, Any] | None
    deadline_at: int


async def insert(
    tx: Tx, request: GradingRequest, job_id: str, fingerprint: str, trace_id: str | None, now: int
) -> bool:
    """True if the request is new."""
    rows = await tx.rows(
        sql.insert,
        request_id=request.dedup_key,
        job_id=job_id,
        submission_id=request.submission_id,
        user_id=request.user_id,
        skill=request.skill,
        attempt=request.attempt,
        fingerprint=fingerprint,
        trace_id=trace_id,
        deadline_at=request.deadline_ms,
        now=now,
    )
    return bool(rows)


async def repeated(tx: Tx, request_id: str) -> GradingJob:
    """Count a duplicate of a known request and lock it."""
    return _jobs(await tx.rows(sql.repeated, request_id=request_id))[0]


async def of_request(tx: Tx, request_id: str) -> GradingJob | None:
    found = _jobs(await tx.rows(sql.of_request, request_id=request_id))
    return found[0] if found else None


async def of_job(tx: Tx, job_id: str) -> GradingJob | None:
    found = _jobs(await tx.rows(sql.of_job, job_id=job_id))
    return found[0] if found else None


async def finish(
    tx: Tx, request_id: str, status: Literal["completed", "failed"], answer: dict[str, Any], now: int
) -> bool:
    """Keep the final answer. False: a result is there already, and stands."""
    text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    return bool(await tx.rows(sql.finish, request_id=request_id, status=status, answer=text, now=now))


async def keep_original(tx: Tx, request_id: str, body: str, now: int) -> None:
    """Keep a request that failed, as it goes on the wire; the first copy stands."""
    await tx.rows(sql.keep_original, request_id=request_id, body=body, now=now)


async def original(tx: Tx, request_id: str) -> str | None:
    """The request that a dead letter refers to, if it is still kept."""
    rows = await tx.rows(sql.original, request_id=request_id)
    return str(rows[0]["body"]) if rows else None


async def tell_one(tx: Tx, request_id: str, provider: str, generation: int) -> GradingJob | None:
    """The request, if nobody was told yet that this opening of the breaker holds it."""
    found = _jobs(await tx.rows(sql.tell_one, request_id=request_id, provider=provider, generation=generation))
    return found[0] if found else None


async def tell_parked(tx: Tx, provider: str, generation: int, limit: int) -> list[GradingJob]:
    """Parked requests that were not yet told of this opening; they are now."""
    return _jobs(await tx.rows(sql.tell_parked, provider=provider, generation=generation, limit=limit))


def _jobs(rows: Sequence[Row]) -> list[GradingJob]:
    found = []
    for row in rows:
        values = {name: row[name] for name in GradingJob._fields}
        values["answer"] = None if row["answer"] is None else json.loads(row["answer"])
        found.append(GradingJob(**values))
    return found

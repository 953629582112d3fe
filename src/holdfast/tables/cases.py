"""Dead letters: one case per job, worked on by people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.core.case import CaseState
from holdfast.stores.seam import Row, Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch

sql = load_statements(Path(__file__).with_suffix(".sql"))


async def lock_of_job(tx: Tx, job_id: str) -> Row | None:
    rows = await tx.rows(sql.lock_of_job, job_id=job_id)
    return rows[0] if rows else None


async def open(tx: Tx, letter: Mapping[str, Any], now: int) -> Row:
    """Open the case of a job that died, or re-open it if it died before."""
    return (await tx.rows(sql.open, **letter, now=now))[0]


async def refer(tx: Tx, job_id: str, request_id: str | None, names: Mapping[str, str | None]) -> None:
    """Write the ids that the world outside knows a dead job by on its case. A job without a case is left alone."""
    rows = await tx.rows(sql.context, job_id=job_id)
    if rows:
        context = json.loads(rows[0]["sanitized_context"]) | dict(names)
        await tx.rows(sql.refer, job_id=job_id, request_id=request_id, context=batch.text(context))


async def step(
    tx: Tx,
    case_id: str,
    expected: CaseState,
    state: CaseState,
    now: int,
    *,
    cause: str | None = None,
    evidence: str | None = None,
    notes: str | None = None,
    replays: int = 0,
) -> bool:
    """Move a case one step, if it still is where it was read."""
    rows = await tx.rows(
        sql.step,
        id=case_id,
        expected=expected,
        state=state,
        cause=cause,
        evidence=evidence,
        notes=notes,
        replays=replays,
        now=now,
    )
    return bool(rows)


async def show(tx: Tx, case_id: str) -> Row | None:
    rows = await tx.rows(sql.show, id=case_id)
    return rows[0] if rows else None


async def lock(tx: Tx, case_id: str) -> Row | None:
    rows = await tx.rows(sql.lock, id=case_id)
    return rows[0] if rows else None


async def page(
    tx: Tx,
    *,
    before: str | None = None,
    state: str | None = None,
    kind: str | None = None,
    stage: str | None = None,
    error_class: str | None = None,
    fingerprint: str | None = None,
    limit: int = 50,
) -> Sequence[Row]:
    return await tx.rows(
        sql.page,
        before=before,
        state=state,
        kind=kind,
        stage=stage,
        error_class=error_class,
        fingerprint=fingerprint,
        limit=limit,
    )


async def groups(tx: Tx, limit: int = 50) -> Sequence[Row]:
    return await tx.rows(sql.groups, limit=limit)


async def count(tx: Tx) -> dict[tuple[str, str], int]:
    """How many there are, by state and category of failure."""
    return {(row["state"], row["category"]): row["letters"] for row in await tx.rows(sql.count)}


async def forget(tx: Tx, job_ids: Iterable[str]) -> None:
    await tx.rows(sql.forget, batch=batch.ids(job_ids))

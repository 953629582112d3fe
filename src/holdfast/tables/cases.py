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


async def correct(
    tx: Tx, case_id: str, expected: CaseState, state: CaseState, now: int, *, evidence: str, replay_stage: str | None
) -> bool:
    """Record that the job's input was corrected, if the case still is where it was read."""
    rows = await tx.rows(
        sql.correct, id=case_id, expected=expected, state=state, evidence=evidence, replay_stage=replay_stage, now=now
    )
    return bool(rows)


async def begin_at(tx: Tx, job_id: str, stage: str) -> None:
    """Let the replay of a dead job's case begin at `stage`."""
    await tx.rows(sql.begin_at, job_id=job_id, stage=stage)


async def keep_correction(
    tx: Tx, case_id: str, job_id: str, now: int, *, actor: str, reason: str | None, before: str, after: str
) -> None:
    """Keep both inputs whole, for as long as the job is kept."""
    await tx.rows(
        sql.keep_correction,
        case_id=case_id,
        job_id=job_id,
        now=now,
        actor=actor,
        reason=reason,
        before=before,
        after=after,
    )


async def corrections(tx: Tx, job_id: str) -> Sequence[Row]:
    """What was corrected, the oldest first: `before` of the first is the original input."""
    return await tx.rows(sql.corrections, job_id=job_id)


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


async def forget(tx: Tx, job_ids: Iterable[str]) -> None:
    ids = batch.ids(job_ids)
    await tx.rows(sql.forget_corrections, batch=ids)
    await tx.rows(sql.forget, batch=ids)

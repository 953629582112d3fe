"""Dead letters: one case per job, worked on by people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.core.case import CaseState
from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch
from holdfast.tables.typed import fetch_first

sql = load_statements(Path(__file__).with_suffix(".sql"))


class LockedCase(NamedTuple):
    """The case of a job, locked."""

    id: str
    state: str
    error_class: str
    deaths: int
    replay_stage: str | None


async def lock_of_job(tx: Tx, job_id: str) -> LockedCase | None:
    return await fetch_first(LockedCase, tx, sql.lock_of_job, job_id=job_id)


class OpenedCase(NamedTuple):
    id: str
    deaths: int


async def open(tx: Tx, letter: Mapping[str, Any], now: int) -> OpenedCase:
    """Open the case of a job that died, or re-open it if it died before."""
    return (await tx.rows(sql.open, into=OpenedCase, **letter, now=now))[0]


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


class KeptCorrection(NamedTuple):
    """Both inputs of one correction, whole."""

    at: int
    actor: str
    reason: str | None
    before: str
    after: str


async def corrections(tx: Tx, job_id: str) -> list[KeptCorrection]:
    """What was corrected, the oldest first: `before` of the first is the original input."""
    return await tx.rows(sql.corrections, into=KeptCorrection, job_id=job_id)


class LetterDetails(NamedTuple):
    """A dead letter with everything that a person needs."""

    id: str
    job_id: str
    request_id: str | None
    kind: str
    stage: str
    provider: str | None
    state: str
    error_class: str
    category: str
    retryable: int
    failure_reason: str
    attempts_made: int
    last_error: str
    last_stack: str
    first_failure_at: int
    last_failure_at: int
    created_at: int
    updated_at: int
    original: str
    sanitized_context: str
    fingerprint: str
    cause: str | None
    evidence: str | None
    notes: str | None
    deaths: int
    replays: int
    replay_stage: str | None


async def show(tx: Tx, case_id: str) -> LetterDetails | None:
    return await fetch_first(LetterDetails, tx, sql.show, id=case_id)


class CaseToStep(NamedTuple):
    """A case, locked for its next step."""

    job_id: str
    kind: str
    stage: str
    state: str
    evidence: str | None
    replay_stage: str | None


async def lock(tx: Tx, case_id: str) -> CaseToStep | None:
    return await fetch_first(CaseToStep, tx, sql.lock, id=case_id)


class LetterLine(NamedTuple):
    """A dead letter in a list, with the state of its job."""

    id: str
    job_id: str
    request_id: str | None
    kind: str
    stage: str
    provider: str | None
    state: str
    error_class: str
    category: str
    retryable: int
    failure_reason: str
    attempts_made: int
    last_error: str
    first_failure_at: int | None
    last_failure_at: int
    created_at: int
    updated_at: int
    fingerprint: str | None
    cause: str | None
    deaths: int
    replays: int
    job_state: str | None


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
) -> list[LetterLine]:
    return await tx.rows(
        sql.page,
        into=LetterLine,
        before=before,
        state=state,
        kind=kind,
        stage=stage,
        error_class=error_class,
        fingerprint=fingerprint,
        limit=limit,
    )


class CaseGroup(NamedTuple):
    """Dead letters that a person would treat as one."""

    fingerprint: str
    kind: str
    stage: str
    provider: str | None
    error_class: str
    category: str
    state: str
    letters: int
    first_at: int
    last_at: int
    last_error: str


async def groups(tx: Tx, limit: int = 50) -> list[CaseGroup]:
    return await tx.rows(sql.groups, into=CaseGroup, limit=limit)


async def forget(tx: Tx, job_ids: Iterable[str]) -> None:
    ids = batch.ids(job_ids)
    await tx.rows(sql.forget_corrections, batch=ids)
    await tx.rows(sql.forget, batch=ids)

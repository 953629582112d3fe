"""What people on call ask of the tables: pages, searches. Only reads; the writers live with their tables."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch
from holdfast.tables.job_rows import JobLine
from holdfast.tables.providers import GateMove
from holdfast.tables.typed import fetch_first

sql = load_statements(Path(__file__).with_suffix(".sql"), JobLine)
PAYLOADS_MAX = 10_000
GATES_MAX = 500
AT_RISK_MAX = 1_000
AT_RISK_AHEAD_MS = 3_600_000
UNSWEPT_MS = 90_000
"""A sweep comes every minute."""
ASIDE_MAX = 1_000


class CaseSummary(NamedTuple):
    id: str
    state: str
    stage: str
    error_class: str
    failure_reason: str
    attempts_made: int


async def case_of_job(tx: Tx, job_id: str) -> CaseSummary | None:
    return await fetch_first(CaseSummary, tx, sql.case_of_job, job_id=job_id)


async def jobs_found(tx: Tx, *, wanted: str, before: str | None, limit: int) -> list[JobLine]:
    """Jobs by any id that belongs to them, their effects' or their messages'."""
    as_id = _as_id(wanted)
    message = await tx.rows(sql.aggregate_of, id=as_id) if as_id is not None else []
    subject = message[0]["aggregate_id"] if message else wanted
    quoted = "".join(f"!{sign}" if sign in "!%_" else sign for sign in json.dumps(wanted))
    rows = await tx.rows(
        sql.jobs_found,
        into=JobLine,
        wanted=subject,
        as_id=_as_id(subject),
        before=before,
        limit=limit,
        quoted=f"%{quoted}%",
        payloads_max=PAYLOADS_MAX,
    )
    return rows or await tx.rows(sql.jobs_of_effect, into=JobLine, wanted=wanted, before=before, limit=limit)


def _as_id(text: str) -> str | None:
    """The text as an id of ours, if it is spelled like one."""
    try:
        return str(UUID(text)) if text.count("-") == 4 else None
    except ValueError:
        return None


class MessageLine(NamedTuple):
    """A message of the outbox in a list."""

    seq: int
    id: str
    aggregate_id: str
    destination: str
    message_type: str
    status: str
    created_at: int
    available_at: int
    processed_at: int | None
    retry_count: int
    error_message: str | None


async def outbox_page(tx: Tx, *, before: int | None, limit: int, status: str | None = None) -> list[MessageLine]:
    return await tx.rows(sql.outbox_page, into=MessageLine, before=before, limit=limit, status=status)


class EffectEntry(NamedTuple):
    """An effect in an operator's list."""

    key: str
    provider: str
    provider_class: str
    status: str
    provider_id: str | None
    sends: int
    first_sent_at: int | None
    last_sent_at: int | None
    marked_at: int | None
    error_class: str | None
    error: str | None
    kind: str
    stage: str
    job_id: str | None
    created_at: int
    updated_at: int


async def effects_page(
    tx: Tx, *, before: str | None, limit: int, status: str | None = None, provider: str | None = None
) -> list[EffectEntry]:
    return await tx.rows(
        sql.effects_page, into=EffectEntry, before=before, limit=limit, status=status, provider=provider
    )


class AuditLine(NamedTuple):
    seq: int
    at: int
    actor: str
    action: str
    subject: str
    data: str | None


async def audit_page(
    tx: Tx,
    *,
    before: int | None,
    limit: int,
    actor: str | None = None,
    subject: str | None = None,
    people: bool = False,
) -> list[AuditLine]:
    """`people`: without what the kernel wrote down by itself."""
    return await tx.rows(
        sql.audit_page, into=AuditLine, before=before, limit=limit, actor=actor, subject=subject, people=int(people)
    )


class GateStep(NamedTuple):
    """A change of one provider's gate."""

    seq: int
    gate: str
    at: int
    reason: str


async def gates_since(tx: Tx, provider: str, since: int) -> list[GateStep]:
    """Oldest first; the first one may lie before `since`."""
    return await tx.rows(sql.gates_since, into=GateStep, provider=provider, since=since, limit=GATES_MAX)


async def gate_changes(tx: Tx, since: int, until: int, limit: int) -> list[GateMove]:
    return await tx.rows(sql.gate_changes, into=GateMove, since=since, until=until, limit=limit)


async def mark(tx: Tx) -> tuple[int | str | None, ...]:
    """A value that differs whenever something has happened."""
    return tuple((await tx.rows(sql.mark))[0])


async def at_risk(tx: Tx, now: int) -> tuple[int, int | None]:
    """How many of the jobs whose deadline comes soon have used three quarters of their time, and the first deadline."""
    window = {"since": now - UNSWEPT_MS, "until": now + AT_RISK_AHEAD_MS}
    rows = await tx.rows(sql.at_risk, now=now, **window, limit=AT_RISK_MAX)
    return rows[0]["jobs"], rows[0]["first_at"]


async def messages_aside(tx: Tx) -> int:
    rows = await tx.rows(sql.messages_aside, limit=ASIDE_MAX)
    return int(rows[0]["messages"])


async def job_ids(tx: Tx, lowest: str, highest: str) -> list[str]:
    """At most two ids of jobs in the range, the lowest first."""
    return [row["id"] for row in await tx.rows(sql.job_ids, lowest=lowest, highest=highest)]


class StateCount(NamedTuple):
    """How many jobs are in a state, and how many of those a provider holds."""

    state: str
    jobs: int
    held: int | None


async def states_of(tx: Tx, job_ids: Iterable[str]) -> list[StateCount]:
    """How many of these jobs are in each state (`jobs`), and how many of those a provider holds (`held`)."""
    return await tx.rows(sql.states_of, into=StateCount, batch=batch.ids(job_ids))


async def letter_ids(tx: Tx, lowest: str, highest: str) -> list[str]:
    return [row["id"] for row in await tx.rows(sql.letter_ids, lowest=lowest, highest=highest)]


async def incident_ids(tx: Tx, lowest: str, highest: str) -> list[str]:
    return [row["id"] for row in await tx.rows(sql.incident_ids, lowest=lowest, highest=highest)]

"""What people on call ask of the tables: pages, searches. Only reads; the writers live with their tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from uuid import UUID

from holdfast.stores.seam import Row, Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch

sql = load_statements(Path(__file__).with_suffix(".sql"))
PAYLOADS_MAX = 10_000
GATES_MAX = 500
AT_RISK_MAX = 1_000
AT_RISK_AHEAD_MS = 3_600_000
ASIDE_MAX = 1_000


async def case_of_job(tx: Tx, job_id: str) -> Row | None:
    rows = await tx.rows(sql.case_of_job, job_id=job_id)
    return rows[0] if rows else None


async def jobs_page(
    tx: Tx,
    *,
    before: str | None,
    limit: int,
    state: str | None = None,
    kind: str | None = None,
    queue: str | None = None,
    stage: str | None = None,
    provider: str | None = None,
    owner: str | None = None,
) -> Sequence[Row]:
    return await tx.rows(
        sql.jobs_page,
        before=before,
        limit=limit,
        state=state,
        kind=kind,
        queue=queue,
        stage=stage,
        provider=provider,
        owner=owner,
    )


async def jobs_found(tx: Tx, *, wanted: str, before: str | None, limit: int) -> Sequence[Row]:
    """Jobs by any id that belongs to them, their effects' or their messages'."""
    as_id = _as_id(wanted)
    message = await tx.rows(sql.aggregate_of, id=as_id) if as_id is not None else []
    subject = message[0]["aggregate_id"] if message else wanted
    quoted = "".join(f"!{sign}" if sign in "!%_" else sign for sign in json.dumps(wanted))
    rows = await tx.rows(
        sql.jobs_found,
        wanted=subject,
        as_id=_as_id(subject),
        before=before,
        limit=limit,
        quoted=f"%{quoted}%",
        payloads_max=PAYLOADS_MAX,
    )
    return rows or await tx.rows(sql.jobs_of_effect, wanted=wanted, before=before, limit=limit)


def _as_id(text: str) -> str | None:
    """The text as an id of ours, if it is spelled like one."""
    try:
        return str(UUID(text)) if text.count("-") == 4 else None
    except ValueError:
        return None


async def outbox_page(tx: Tx, *, before: int | None, limit: int, status: str | None = None) -> Sequence[Row]:
    return await tx.rows(sql.outbox_page, before=before, limit=limit, status=status)


async def effects_page(
    tx: Tx, *, before: str | None, limit: int, status: str | None = None, provider: str | None = None
) -> Sequence[Row]:
    return await tx.rows(sql.effects_page, before=before, limit=limit, status=status, provider=provider)


async def audit_page(
    tx: Tx,
    *,
    before: int | None,
    limit: int,
    actor: str | None = None,
    subject: str | None = None,
    people: bool = False,
) -> Sequence[Row]:
    """`people`: without what the kernel wrote down by itself."""
    return await tx.rows(sql.audit_page, before=before, limit=limit, actor=actor, subject=subject, people=int(people))


async def gates_since(tx: Tx, provider: str, since: int) -> Sequence[Row]:
    """Oldest first; the first one may lie before `since`."""
    return await tx.rows(sql.gates_since, provider=provider, since=since, limit=GATES_MAX)


async def gate_changes(tx: Tx, since: int, until: int, limit: int) -> Sequence[Row]:
    return await tx.rows(sql.gate_changes, since=since, until=until, limit=limit)


async def mark(tx: Tx) -> tuple[int | str | None, ...]:
    """A value that differs whenever something has happened."""
    return tuple((await tx.rows(sql.mark))[0])


async def at_risk(tx: Tx, now: int) -> tuple[int, int | None]:
    """How many of the jobs whose deadline comes soon have used three quarters of their time, and the first deadline."""
    rows = await tx.rows(sql.at_risk, now=now, until=now + AT_RISK_AHEAD_MS, limit=AT_RISK_MAX)
    return rows[0]["jobs"], rows[0]["first_at"]


async def messages_aside(tx: Tx) -> int:
    rows = await tx.rows(sql.messages_aside, limit=ASIDE_MAX)
    return int(rows[0]["messages"])


async def job_ids(tx: Tx, lowest: str, highest: str) -> list[str]:
    """At most two ids of jobs in the range, the lowest first."""
    return [row["id"] for row in await tx.rows(sql.job_ids, lowest=lowest, highest=highest)]


async def states_of(tx: Tx, job_ids: Iterable[str]) -> Sequence[Row]:
    """How many of these jobs are in each state (`jobs`), and how many of those a provider holds (`held`)."""
    return await tx.rows(sql.states_of, batch=batch.ids(job_ids))


async def letter_ids(tx: Tx, lowest: str, highest: str) -> list[str]:
    return [row["id"] for row in await tx.rows(sql.letter_ids, lowest=lowest, highest=highest)]


async def incident_ids(tx: Tx, lowest: str, highest: str) -> list[str]:
    return [row["id"] for row in await tx.rows(sql.incident_ids, lowest=lowest, highest=highest)]

"""Incidents and the jobs that they hit. Opened and ended by whoever looks, worked on by people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.core.floor import BOTTOM
from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables.audit import AuditRecord
from holdfast.tables.typed import fetch_first

sql = load_statements(Path(__file__).with_suffix(".sql"))
JOINED_MAX = 1_000
HIT_MAX = 10_000
LINES_MAX = 200
CALLS_MAX = 500


class Incident(NamedTuple):
    """A row, as it was read."""

    id: str
    topic: str
    subject: str
    severity: str
    state: str
    sentence: str
    began_at: int
    opened_at: int
    ended_at: int | None
    closed_at: int | None
    acknowledged_at: int | None
    acknowledged_by: str | None
    assignee: str | None
    summary: str | None
    jobs_max: int
    owners_max: int


class Hit(NamedTuple):
    """Who waits: so many jobs of so many owners, and when the first of them is late."""

    jobs: int = 0
    owners: int = 0
    late_at: int | None = None
    answer: str | None = None
    """How the provider answered last, where one is down."""


async def live(tx: Tx, since: int) -> list[Incident]:
    """Those that go on, and those that ended since a time."""
    return [Incident(*row) for row in await tx.rows(sql.live, since=since)]


async def open(
    tx: Tx, id: str, topic: str, subject: str, severity: str, sentence: str, began_at: int, hit: Hit, now: int
) -> bool:
    """False: another process has just opened it."""
    rows = await tx.rows(
        sql.open,
        id=id,
        topic=topic,
        subject=subject,
        severity=severity,
        sentence=sentence,
        began_at=began_at,
        jobs=hit.jobs,
        owners=hit.owners,
        now=now,
    )
    return bool(rows)


async def follow(tx: Tx, known: Incident, severity: str, sentence: str, hit: Hit) -> bool:
    """Write down what it has grown to, unless another process did so meanwhile."""
    jobs, owners = max(hit.jobs, known.jobs_max), max(hit.owners, known.owners_max)
    rows = await tx.rows(
        sql.follow,
        id=known.id,
        expected=known.severity,
        severity=severity,
        sentence=sentence,
        jobs=jobs,
        owners=owners,
    )
    return bool(rows)


async def reopen(tx: Tx, id: str, severity: str, sentence: str) -> bool:
    return bool(await tx.rows(sql.reopen, id=id, severity=severity, sentence=sentence))


async def over(tx: Tx, id: str, now: int) -> str | None:
    """The state it has now: `over`, or `closed` where it asked nothing of anybody. None: it had ended already."""
    rows = await tx.rows(sql.over, id=id, now=now)
    return rows[0]["state"] if rows else None


async def acknowledge(tx: Tx, id: str, actor: str, now: int) -> bool:
    return bool(await tx.rows(sql.acknowledge, id=id, actor=actor, now=now))


async def assign(tx: Tx, id: str, assignee: str) -> bool:
    return bool(await tx.rows(sql.assign, id=id, assignee=assignee))


async def close(tx: Tx, id: str, summary: str, now: int) -> bool:
    return bool(await tx.rows(sql.close, id=id, summary=summary, now=now))


async def show(tx: Tx, id: str) -> Incident | None:
    return await fetch_first(Incident, tx, sql.show, id=id)


async def page(tx: Tx, *, before: str | None, limit: int, state: str | None = None) -> list[Incident]:
    return await tx.rows(sql.page, into=Incident, before=before, limit=limit, state=state)


async def join_held(tx: Tx, id: str, provider: str, floor: int, now: int) -> None:
    """Remember the jobs that wait for a provider, of those parked since `floor`: the first, at most `JOINED_MAX`."""
    await tx.rows(sql.join_held, incident_id=id, provider=provider, floor=floor, now=now, limit=JOINED_MAX)


async def join_dead(
    tx: Tx,
    id: str,
    since: int,
    floor: int = BOTTOM,
    *,
    provider: str | None = None,
    queue: str | None = None,
    category: str | None = None,
    died_of: str | None = None,
) -> int:
    """Remember the letters of an incident's time that belong to it, and deaths of jobs that it held; how many."""
    rows = await tx.rows(
        sql.join_dead,
        incident_id=id,
        since=since,
        floor=floor,
        provider=provider,
        queue=queue,
        category=category,
        died_of=died_of,
        limit=JOINED_MAX,
    )
    return len(rows)


class HitCount(NamedTuple):
    """Jobs that an incident hit in one role."""

    role: str
    jobs: int
    owners: int
    first_at: int
    last_at: int


async def hit(tx: Tx, id: str) -> list[HitCount]:
    return await tx.rows(sql.hit, into=HitCount, id=id)


class JobHit(NamedTuple):
    """One job that an incident hit."""

    job_id: str
    role: str
    letter_id: str | None
    at: int
    kind: str | None
    stage: str | None
    state: str | None
    owner: str | None
    error_class: str | None
    letter_state: str | None


async def jobs_hit(tx: Tx, id: str, limit: int = LINES_MAX) -> list[JobHit]:
    return await tx.rows(sql.jobs_hit, into=JobHit, id=id, limit=limit)


class MinuteHits(NamedTuple):
    """Jobs that an incident hit in one minute."""

    minute: int
    role: str
    error_class: str | None
    jobs: int


async def letters_by_minute(tx: Tx, id: str) -> list[MinuteHits]:
    return await tx.rows(sql.letters_by_minute, into=MinuteHits, id=id, limit=LINES_MAX)


async def acts_between(tx: Tx, subject: str, since: int, until: int) -> list[AuditRecord]:
    return await tx.rows(sql.acts_between, into=AuditRecord, subject=subject, since=since, until=until, limit=LINES_MAX)


async def held_for(tx: Tx, provider: str, floor: int) -> tuple[Hit, int | None]:
    """Who waits for a provider, of those parked since `floor`; and when the first of them was."""
    (row,) = await tx.rows(sql.held_for, provider=provider, floor=floor, limit=HIT_MAX)
    return Hit(row["jobs"], row["owners"], row["late_at"]), row["first"]


async def due_in(tx: Tx, queue: str, floors: Sequence[int]) -> Hit:
    """Who waits in a queue; `floors` are those of its priorities, in their order."""
    urgent, high, normal, low = floors
    since = {"urgent_since": urgent, "high_since": high, "normal_since": normal, "low_since": low}
    (row,) = await tx.rows(sql.due_in, queue=queue, limit=HIT_MAX, **since)
    return Hit(row["jobs"], row["owners"], row["late_at"])


async def last_answer(tx: Tx, provider: str, since: int) -> str | None:
    """Such as `503 UPSTREAM_UNAVAILABLE`."""
    rows = await tx.rows(sql.last_answer, provider=provider, since=since, calls_max=CALLS_MAX)
    return " ".join(str(part) for part in rows[0] if part is not None) if rows else None


async def prune(tx: Tx, before: int, limit: int) -> int:
    await tx.rows(sql.forget_jobs, before=before, limit=limit)
    return len(await tx.rows(sql.forget, before=before, limit=limit))


class BegunIncident(NamedTuple):
    id: str
    began_at: int
    sentence: str


async def begun_between(tx: Tx, since: int, until: int, limit: int) -> list[BegunIncident]:
    return await tx.rows(sql.begun_between, into=BegunIncident, since=since, until=until, limit=limit)

"""Cron schedules: what to enqueue next, and when."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch

sql = load_statements(Path(__file__).with_suffix(".sql"))


class NewSchedule(NamedTuple):
    """A schedule as its app declares it, or as somebody added it while all was running (`added`)."""

    name: str
    cron: str
    kind: str
    payload: str
    timezone: str
    jitter_ms: int
    overlap: str
    added: int


async def ensure(tx: Tx, schedule: NewSchedule, next_at: int, now: int) -> None:
    await tx.rows(sql.ensure, **schedule._asdict(), next_at=next_at, now=now)


class DueSchedule(NamedTuple):
    name: str
    cron: str
    kind: str
    payload: str
    next_at: int
    timezone: str
    jitter_ms: int
    overlap: str
    last_at: int | None


class UpcomingSchedule(NamedTuple):
    name: str
    next_at: int


async def upcoming(tx: Tx, kinds: Iterable[str], named: Iterable[str], limit: int = 50) -> list[UpcomingSchedule]:
    """The next ones, in the order of their times: of these kinds, and added by a person or `named` in the code."""
    given = {"kinds": batch.ids(kinds), "named": batch.ids(named)}
    return await tx.rows(sql.upcoming, into=UpcomingSchedule, **given, limit=limit)


async def lock_due(tx: Tx, name: str, now: int) -> DueSchedule | None:
    """A schedule that is still due, which nobody else enqueues until the commit."""
    rows = await tx.rows(sql.lock_due, into=DueSchedule, name=name, now=now)
    return rows[0] if rows else None


async def advance(tx: Tx, name: str, expected: int, next_at: int, now: int, *, ran: bool = True) -> bool:
    """Set the next time; the tick of `expected` was enqueued if it `ran`."""
    return bool(await tx.rows(sql.advance, name=name, expected=expected, next_at=next_at, now=now, ran=int(ran)))


async def pause(tx: Tx, name: str, paused: bool, next_at: int | None, now: int) -> bool:
    """Pause or resume; False if there is no such schedule. `next_at`: its next time from now on."""
    return bool(await tx.rows(sql.pause, name=name, paused=int(paused), next_at=next_at, now=now))


async def remove(tx: Tx, name: str) -> bool:
    """False if there is no such."""
    return bool(await tx.rows(sql.remove, name=name))


class StoredSchedule(NamedTuple):
    """A schedule as it is stored."""

    name: str
    cron: str
    kind: str
    payload: str
    next_at: int
    last_at: int | None
    timezone: str
    jitter_ms: int
    overlap: str
    paused: int
    added: int


async def read_every(tx: Tx) -> list[StoredSchedule]:
    return await tx.rows(sql.read_every, into=StoredSchedule)


async def is_live(tx: Tx, kind: str, job_key: str) -> bool:
    """Whether the job of an earlier tick has not ended."""
    return bool(await tx.rows(sql.is_live, kind=kind, job_key=job_key))


class TickJob(NamedTuple):
    """A job that a schedule has enqueued."""

    id: str
    job_key: str | None
    state: str
    stage: str
    failures: int
    created_at: int
    finished_at: int | None
    error: str | None


async def runs(tx: Tx, kind: str, prefix: str, limit: int) -> list[TickJob]:
    """The jobs of a kind whose keys begin with the prefix, the newest first."""
    escaped = "".join(f"!{sign}" if sign in "!%_" else sign for sign in prefix)
    return await tx.rows(sql.runs, into=TickJob, kind=kind, keys=f"{escaped}%", limit=limit)

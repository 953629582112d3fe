"""Workers that are alive, for people to look at, and for each other: who answers which ring. What no ring finds a poll
does. Leases live on the job's own row; whether one that goes ahead of the time still holds, the worker's sign says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements

sql = load_statements(Path(__file__).with_suffix(".sql"))
FRESH_MS = 90_000
"""Workers report when they renew their leases; one that was silent for this long is taken for gone."""
INTRODUCED_MS = 20 * 60_000
"""So often a worker's whole row is written again: code of before forgets whoever has not written it for an hour."""


async def seen(
    tx: Tx,
    name: str,
    queues: str,
    in_flight: int,
    now: int,
    declared: str = "{}",
    *,
    heeds: bool = False,
    release: str | None = None,
    holds_until: int | None = None,
) -> bool:
    """A sign of life; returns whether the worker is to take nothing more. What it declares is written with the first: a
    worker's code does not change. One that `heeds` answers rings that are addressed to it; one that names its `release`
    does as it is told here; one whose leases are extended in this commit says until when."""
    sign = {"name": name, "in_flight": in_flight, "now": now, "holds_until": holds_until}
    if not await tx.rows(sql.sign, **sign):
        await tx.rows(sql.first_sign, **sign)
    rows = await tx.rows(sql.own_row, name=name)
    if not rows or rows[0]["heeds"] != int(heeds) or rows[0]["seen_at"] < now - INTRODUCED_MS:
        given = {"name": name, "queues": queues, "in_flight": in_flight, "declared": declared, "release": release}
        rows = await tx.rows(sql.introduce, now=now, heeds=int(heeds), **given)
    return rows[0]["drain_at"] is not None


async def hold(tx: Tx, name: str, holds_until: int) -> None:
    """Say for a worker whose loop is blocked until when its leases hold."""
    await tx.rows(sql.hold, name=name, holds_until=holds_until)


async def company(tx: Tx, queues: str, declared: str, since: int) -> list[str]:
    """The workers that would answer the same rings, in order."""
    return [row["name"] for row in await tx.rows(sql.company, queues=queues, declared=declared, since=since)]


async def gone(tx: Tx, name: str, before: int) -> None:
    await tx.rows(sql.gone, name=name, before=before)
    await tx.rows(sql.forget_signs, name=name, before=before)


async def probe(tx: Tx, name: str) -> None:
    """Write and take back: after the commit the database has shown that it can be written, and looks as before."""
    await tx.rows(sql.probe_put, name=name)
    await tx.rows(sql.probe_take, name=name)


async def known(tx: Tx, now: int) -> list[str]:
    """Every worker that holds a job at this time or has reported."""
    return [row["name"] for row in await tx.rows(sql.known, now=now)]


async def expire(tx: Tx, name: str, now: int) -> None:
    """End the leases of a worker that is known to be gone, so that nobody waits them out, and forget it."""
    await tx.rows(sql.expire, name=name, now=now)
    await gone(tx, name, 0)


async def declaring(tx: Tx, queue: str, since: int) -> list[frozenset[str]]:
    """What may be claimed by the workers of a queue that reported lately: each different set of keys once."""
    rows = await tx.rows(sql.declaring, since=since)
    return [frozenset(json.loads(row["declared"])) for row in rows if queue in row["queues"].split(",")]


class SeenWorker(NamedTuple):
    """A worker as it reported last."""

    name: str
    queues: str
    started_at: int
    seen_at: int
    in_flight: int
    drain_at: int | None
    release: str | None


async def read_every(tx: Tx) -> list[SeenWorker]:
    return await tx.rows(sql.read_every, into=SeenWorker)


async def drain(tx: Tx, name: str, drain_at: int | None) -> bool:
    """Ask a worker to take nothing more, or (None) to take again; False if it could not read that."""
    return bool(await tx.rows(sql.drain, name=name, drain_at=drain_at))


class HeldJob(NamedTuple):
    """A job that a worker is running."""

    id: str
    kind: str
    stage: str
    attempt: int
    last_attempt_at: int | None


async def running(tx: Tx, name: str, since: int, limit: int) -> list[HeldJob]:
    return await tx.rows(sql.running, into=HeldJob, name=name, since=since, limit=limit)


class StartedWorker(NamedTuple):
    release: str | None
    declared: str | None
    started_at: int


async def started_since(tx: Tx, since: int) -> list[StartedWorker]:
    return await tx.rows(sql.started_since, into=StartedWorker, since=since)

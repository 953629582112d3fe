"""What runs out: leases, deadlines, the time for a callback. Functions named as the statements in `leases.sql`.

Why so: docs/decisions/0044-own-versions.md
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from holdfast.core.floor import BOTTOM
from holdfast.core.job import Claimed
from holdfast.core.lease import ahead_ms, is_due, is_long
from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch
from holdfast.tables.jobs import locked

sql = load_statements(Path(__file__).with_suffix(".sql"), Claimed)


def since(now: int, lease_s: float) -> int:
    """Leases in a worker's name are looked for from here on. What ran out ten leases ago is long taken back."""
    return now - int(lease_s * 10_000)


async def renew(tx: Tx, leases: Mapping[str, int], lease_until: int) -> set[str]:
    """Extend every lease that is still held; ids that do not come back are lost."""
    rows = {job_id: [attempt] for job_id, attempt in sorted(leases.items())}
    return {row["id"] for row in await tx.rows(sql.renew, batch=batch.keyed(rows), lease_until=lease_until)}


async def keep(tx: Tx, attempts: Collection[Claimed], now: int, lease_ms: int) -> set[str]:
    """Extend the leases of a worker whose sign of life says in this commit how long it holds them: of what has run for
    long, ahead of the time. Ids that do not come back are lost."""
    long = {job.id: job for job in attempts if is_long(_ran_ms(job, now), lease_ms)}
    young = {job.id: job.attempt for job in attempts if job.id not in long}
    kept = await renew(tx, young, now + lease_ms) if young else set()
    if long:
        attempts_held = {job_id: [job.attempt] for job_id, job in sorted(long.items())}
        rows = await tx.rows(sql.held, batch=batch.keyed(attempts_held))
        due = [long[row["id"]] for row in rows if is_due(row["lease_until"] - now, lease_ms)]
        kept |= {row["id"] for row in rows} - {job.id for job in due}
        for job in due:  # each after a time of its own, which gets longer
            kept |= await renew(tx, {job.id: job.attempt}, now + ahead_ms(_ran_ms(job, now), lease_ms))
    return kept


def _ran_ms(job: Claimed, now: int) -> int:
    return now - (job.last_attempt_at or now)


async def renew_owned(tx: Tx, owner: str, since: int, lease_until: int) -> int:
    """Extend every lease in this name that did not run out before `since`; returns how many there are."""
    return len(await tx.rows(sql.renew_owned, owner=owner, since=since, lease_until=lease_until))


async def expired(
    tx: Tx, queues: Sequence[str], now: int, limit: int, floor: int = BOTTOM
) -> list[tuple[Claimed, str | None, int]]:
    """Jobs whose lease ran out, locked, each with its stage's provider and when that was."""
    rows = await tx.rows(sql.expired, queues=batch.ids(queues), floor=floor, now=now, limit=limit)
    return [(*locked(list(row)[:-1]), row["lease_until"]) for row in rows]


async def deserted(
    tx: Tx, queues: Sequence[str], now: int, limit: int, beyond: int
) -> list[tuple[Claimed, str | None]]:
    """Jobs that are leased to `beyond` or longer by workers that hold nothing any more, locked."""
    rows = await tx.rows(sql.deserted, queues=batch.ids(queues), now=now, limit=limit, beyond=beyond)
    return [locked(row) for row in rows]


async def held_by(tx: Tx, owner: str, since: int = BOTTOM) -> list[tuple[Claimed, str | None]]:
    """Every job leased to this worker, locked, but for those whose lease ran out before `since`."""
    return [locked(row) for row in await tx.rows(sql.held_by, owner=owner, since=since)]


async def overdue(
    tx: Tx, queues: Sequence[str], now: int, limit: int, floor: int = BOTTOM
) -> list[tuple[Claimed, str | None]]:
    """Live jobs past their deadline, locked, by their deadlines."""
    rows = await tx.rows(sql.overdue, queues=batch.ids(queues), floor=floor, now=now, limit=limit)
    return [locked(row) for row in rows]


async def unanswered(
    tx: Tx, queues: Sequence[str], now: int, limit: int, floor: int = BOTTOM
) -> list[tuple[Claimed, str | None]]:
    """Jobs that nobody called back in time, locked, by the end of that time."""
    rows = await tx.rows(sql.unanswered, queues=batch.ids(queues), floor=floor, now=now, limit=limit)
    return [locked(row) for row in rows]

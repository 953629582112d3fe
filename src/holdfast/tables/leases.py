"""What runs out: leases, deadlines, the time for a callback. Functions named as the statements in `leases.sql`.

Why so: docs/decisions/0044-own-versions.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.core.floor import BOTTOM
from holdfast.core.job import Claimed
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


async def renew_owned(tx: Tx, owner: str, since: int, lease_until: int) -> int:
    """Extend every lease in this name that did not run out before `since`; returns how many there are."""
    return len(await tx.rows(sql.renew_owned, owner=owner, since=since, lease_until=lease_until))


async def expired(
    tx: Tx, queues: Sequence[str], now: int, limit: int, floor: int = BOTTOM
) -> list[tuple[Claimed, str | None, int]]:
    """Jobs whose lease ran out, locked, each with its stage's provider and when that was."""
    rows = await tx.rows(sql.expired, queues=batch.ids(queues), floor=floor, now=now, limit=limit)
    return [(*locked(list(row)[:-1]), row["lease_until"]) for row in rows]


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

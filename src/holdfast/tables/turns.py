"""Jobs that wait for the turn of their key: parked rows with the hold `turn`. Functions named as in `turns.sql`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.core.floor import BOTTOM, LATER, SLACK_MS, Floors, Lane
from holdfast.core.job import PRIORITIES
from holdfast.core.turns import MINUTE_MS, STARTING_MS, KeyUse, turn_at
from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch

sql = load_statements(Path(__file__).with_suffix(".sql"))


BEFORE_ALL = "\U0010ffff"
"""Where a round begins: no key is higher."""


class WaitingLane(NamedTuple):
    """A lane in which jobs wait for their turn: since when the oldest does, and how many jobs of its queue had theirs
    and are not claimed yet."""

    queue: str
    priority: int
    since: int
    admitted: int


class KeyCount(NamedTuple):
    """When a key was counted, and which of its jobs had begun and not ended then."""

    at: int
    unended: frozenset[str]


Counts = dict[str, KeyCount]
COUNTS_MAX = 10_000
"""Of so many keys a process remembers its last count."""


class AdmittedJob(NamedTuple):
    """A job that was let in, and its key."""

    key: str
    id: str


async def lanes(
    tx: Tx, queues: Sequence[str], most: int, floors: Floors, now: int
) -> tuple[list[WaitingLane], dict[Lane, int]]:
    """Where jobs wait; and from where on to look for them next time, in each lane and among those that were let in."""
    every = batch.numbered(
        (queue, priority, floors.get((queue, priority), BOTTOM), floors.get((queue, LATER), BOTTOM))
        for priority in PRIORITIES
        for queue in queues
    )
    waiting: list[WaitingLane] = []
    reached: dict[Lane, int] = {}
    for queue, priority, since, admitted, admitted_since in await tx.rows(sql.lanes, lanes=every, most=most, now=now):
        reached[queue, priority] = now - SLACK_MS if since is None else since
        if since is not None:
            waiting.append(WaitingLane(queue, priority, since, admitted))
        if since is not None or priority == PRIORITIES[0]:
            reached[queue, LATER] = now - SLACK_MS if admitted_since is None else admitted_since
    return waiting, reached


async def next_keys(tx: Tx, lane: WaitingLane, after: str, limit: int) -> list[str]:
    """Up to `limit` keys with waiting jobs, in the order of their turns: those that come after `after`, then from the
    first. The order is that of the index, read backwards."""
    where = {"queue": lane.queue, "priority": lane.priority, "since": lane.since}
    rows = await tx.rows(sql.next_keys, before=after, limit=limit, **where)
    return [row["key"] for row in sorted(rows, key=lambda row: row["place"])]


async def lock(tx: Tx, queue: str) -> None:
    """Wait until nobody else lets jobs of the queue in, and keep others from it until this transaction ends."""
    await tx.rows(sql.open, queue=queue)
    await tx.rows(sql.lock, queue=queue)


async def begun(tx: Tx, keys: Sequence[str], counts: Counts, now: int) -> dict[str, KeyUse]:
    """What each key has begun, exactly, with its starts within the last minute; what was let in and is yet to be
    claimed is one of them, however long ago it was let in. `counts`, what this process found under the same lock
    before, is brought up to date.

    Nothing enters what a count has left out but by a start after it: a start is written under the lock, with the time
    of then. A minute of difference between the clocks of two processes is allowed for."""
    counted = {key: counts[key] for key in keys if key in counts}
    uses = {key: KeyUse(0, 0) for key in keys}
    unended: dict[str, set[str]] = {key: set() for key in keys}
    unclaimed: dict[str, set[str]] = {key: set() for key in keys}
    rows = await tx.rows(
        sql.begun,
        keys=batch.ids(keys),
        since=now - MINUTE_MS - STARTING_MS,
        known=batch.ids(job_id for count in counted.values() for job_id in count.unended),
        counted=batch.keyed({key: [count.at - MINUTE_MS] for key, count in counted.items()}),
        uncounted=batch.ids(key for key in keys if key not in counted),
    )
    for key, job_id, lately in rows:
        if job_id is None:
            uses[key] = KeyUse(0, lately)
        else:
            unended[key].add(job_id)
            if lately:
                unclaimed[key].add(job_id)
    if len(counts) + len(keys) > COUNTS_MAX:
        counts.clear()
    counts.update({key: KeyCount(now, frozenset(ids)) for key, ids in unended.items()})
    return {key: KeyUse(len(unended[key]), use.lately + len(unclaimed[key])) for key, use in uses.items()}


async def admit(tx: Tx, lane: WaitingLane, shares: Mapping[str, int], stages: str, now: int) -> list[AdmittedJob]:
    """Let each key's oldest due jobs be claimed, as many as its share. `stages`: the first stages that may be started
    here, each with its provider, as one JSON object."""
    where = {"queue": lane.queue, "priority": lane.priority, "since": lane.since, "stages": stages, "now": now}
    if tx.dialect == "postgres":
        keyed = batch.keyed({key: [number, turn_at(key, now)] for key, number in shares.items()})
        return [AdmittedJob(*row) for row in await tx.rows(sql.admit, shares=keyed, **where)]
    admitted: list[AdmittedJob] = []
    for key, number in shares.items():
        rows = await tx.rows(sql.admit, key=key, share=number, turn_at=turn_at(key, now), **where)
        admitted += [AdmittedJob(*row) for row in rows]
    return admitted

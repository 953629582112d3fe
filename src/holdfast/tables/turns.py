"""Jobs that wait for the turn of their key: parked rows with the hold `turn`. Functions named as in `turns.sql`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.core.floor import BOTTOM, LATER, SLACK_MS, Floors, Lane
from holdfast.core.job import PRIORITIES
from holdfast.core.turns import KeyUse, turn_at
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


async def begun(tx: Tx, keys: Sequence[str], since: int) -> dict[str, KeyUse]:
    """What each key has begun, with its starts after `since`."""
    rows = await tx.rows(sql.begun, keys=batch.ids(keys), since=since)
    return {row["key"]: KeyUse(row["unended"], row["lately"]) for row in rows}


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

"""Jobs that wait for the turn of their key: parked rows with the hold `turn`. Functions named as in `turns.sql`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.core.job import PRIORITIES
from holdfast.core.turns import KeyUse, turn_at
from holdfast.stores.seam import Row, Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch

sql = load_statements(Path(__file__).with_suffix(".sql"))


class WaitingLane(NamedTuple):
    """A lane in which jobs wait for their turn, and how many jobs of its queue had theirs and are not claimed yet."""

    queue: str
    priority: int
    admitted: int


async def lanes(tx: Tx, queues: Sequence[str], most: int, now: int) -> list[WaitingLane]:
    every = batch.numbered((queue, priority) for priority in PRIORITIES for queue in queues)
    return [WaitingLane(*row) for row in await tx.rows(sql.lanes, lanes=every, most=most, now=now)]


async def next_keys(tx: Tx, lane: WaitingLane, after: str, limit: int) -> list[str]:
    """Up to `limit` keys with waiting jobs, in the order of their turns: those after `after`, then from the first."""
    keys = await _keys_after(tx, lane, after, limit)
    if len(keys) < limit and after:
        again = await _keys_after(tx, lane, "", limit - len(keys))
        keys += [key for key in again if key <= after]
    return keys


async def _keys_after(tx: Tx, lane: WaitingLane, after: str, limit: int) -> list[str]:
    rows = await tx.rows(sql.next_keys, queue=lane.queue, priority=lane.priority, after=after, limit=limit)
    return [row["key"] for row in rows]


async def lock(tx: Tx, queue: str) -> None:
    """Wait until nobody else lets jobs of the queue in, and keep others from it until this transaction ends."""
    await tx.rows(sql.open, queue=queue)
    await tx.rows(sql.lock, queue=queue)


async def begun(tx: Tx, keys: Sequence[str], since: int) -> dict[str, KeyUse]:
    """What each key has begun, with its starts after `since`."""
    rows = await tx.rows(sql.begun, keys=batch.ids(keys), since=since)
    return {row["key"]: KeyUse(row["unended"], row["lately"]) for row in rows}


async def admit(tx: Tx, lane: WaitingLane, shares: Mapping[str, int], stages: str, now: int) -> list[str]:
    """Let each key's oldest due jobs be claimed, as many as its share; return the key of each job. `stages`: the first
    stages that may be started here, each with its provider, as one JSON object."""
    where = {"queue": lane.queue, "priority": lane.priority, "stages": stages, "now": now}
    if tx.dialect == "postgres":
        keyed = batch.keyed({key: [number, turn_at(key, now)] for key, number in shares.items()})
        return _keys(await tx.rows(sql.admit, shares=keyed, **where))
    taken: list[str] = []
    for key, number in shares.items():
        taken += _keys(await tx.rows(sql.admit, key=key, share=number, turn_at=turn_at(key, now), **where))
    return taken


def _keys(rows: Sequence[Row]) -> list[str]:
    return [row["fair_key"] for row in rows]

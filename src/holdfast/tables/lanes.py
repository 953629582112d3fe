"""The lanes of claims: what enters them when it is due, what engines that carry ids are told of, what is below a floor.
Functions named as the statements in `lanes.sql`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from holdfast.core.floor import BOTTOM, LATER, NO_FLOORS, SLACK_MS, Floors, Lane, lowest
from holdfast.core.job import PRIORITIES
from holdfast.stores.seam import Row, Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch, events, pauses

sql = load_statements(Path(__file__).with_suffix(".sql"))
COME_MAX = 500
"""As many of what has come due take part in one claim."""


class PromotedJob(NamedTuple):
    """A job that was let into its lane."""

    priority: int
    created_at: int
    run_at: int


async def promote(tx: Tx, queue: str, now: int, floor: int = BOTTOM, limit: int = COME_MAX) -> list[PromotedJob]:
    """Let into the ready index what has come due; returns where in it that is."""
    return await tx.rows(sql.promote, into=PromotedJob, queue=queue, floor=floor, now=now, limit=limit)


async def below(tx: Tx, floors: Floors, declared: str, now: int) -> Floors:
    """The oldest job of each lane that lies below its floor and could be claimed."""
    known = [(queue, priority, at) for (queue, priority), at in sorted(floors.items())]
    ready = batch.numbered(lane for lane in known if lane[1] != LATER)
    later = batch.numbered(lane for lane in known if lane[1] == LATER)
    keys = {
        (row["queue"], row["priority"]): row["lowest"]
        for row in await tx.rows(sql.below, lanes=ready, declared=declared, now=now)
    }
    for row in await tx.rows(sql.below_later, lanes=later, declared=declared):
        keys[row["queue"], LATER] = row["lowest"]
    return {lane: key for lane, key in keys.items() if key is not None}


async def due_ids(
    tx: Tx, queue: str, declared: str, now: int, limit: int, floors: Floors = NO_FLOORS
) -> tuple[list[tuple[str, int]], Floors]:
    """Up to `limit` due jobs of a queue, the most urgent first, each with its attempt; and the floors from which the
    next look finds them again. Parks what is held. Of a queue that is paused, none."""
    if await pauses.is_paused(tx, "queue", queue):
        return [], {}
    rows: list[Row] = []
    come = await promote(tx, queue, now, floors.get((queue, LATER), BOTTOM), max(limit, COME_MAX))
    later = max(job.run_at for job in come) if len(come) >= max(limit, COME_MAX) else now - SLACK_MS
    entered = lowest(*({(queue, job.priority): job.created_at} for job in come))
    known: dict[Lane, int] = {(queue, LATER): later}
    for lane in [(queue, priority) for priority in PRIORITIES]:
        if len(rows) < limit:
            start = min(floors.get(lane, BOTTOM), entered.get(lane, now))
            due = await tx.rows(
                sql.due_ids,
                queue=queue,
                priority=lane[1],
                floor=start,
                declared=declared,
                now=now,
                limit=limit - len(rows),
            )
            known[lane] = due[0]["created_at"] if due else now - SLACK_MS
            rows += due
        elif lane in entered:
            known[lane] = min(floors.get(lane, BOTTOM), entered[lane])
    held = {row["id"]: (row["attempt"], row["held"]) for row in rows if row["held"]}
    if held:
        await park(tx, held, now)
    return [(row["id"], row["attempt"]) for row in rows if not row["held"]], known


async def park(tx: Tx, jobs: Mapping[str, tuple[int, str]], now: int) -> None:
    """Set due jobs aside until their provider's breaker, or a person, lets them go, and log it. Of each: its attempt,
    and what holds it."""
    batched = batch.keyed({job_id: list(why) for job_id, why in sorted(jobs.items())})
    parked = await tx.rows(sql.park, batch=batched, now=now)
    if parked:
        await events.append(tx, [(row["id"], row["attempt"], "parked", None) for row in parked], now)

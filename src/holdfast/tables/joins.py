"""Joins: what one stage of one job has spawned together, and how many of it have not ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from holdfast.core.job import Claimed
from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch
from holdfast.tables.jobs import NIL
from holdfast.tables.typed import fetch_first

sql = load_statements(Path(__file__).with_suffix(".sql"), Claimed)


class Join(NamedTuple):
    """A join, as its stage sees it."""

    id: str
    name: str
    kind: str
    state: str
    size: int
    unended: int
    created_at: int


async def begin(tx: Tx, join_id: str, job: Claimed, name: str, kind: str, state: str, now: int) -> None:
    """Make the join, unless an earlier attempt has."""
    await tx.rows(
        sql.begin,
        id=join_id,
        parent_id=job.id,
        epoch=job.epoch,
        stage=job.stage,
        name=name,
        kind=kind,
        state=state,
        now=now,
    )


async def of_stage(tx: Tx, job: Claimed) -> dict[str, Join]:
    """What the stage has spawned in this epoch, by name."""
    rows = await tx.rows(sql.of_stage, parent_id=job.id, epoch=job.epoch, stage=job.stage)
    return {row["name"]: Join._make(row) for row in rows}


async def generations(tx: Tx, join_id: str, limit: int) -> int:
    """How many parents in a row the children of this join have, counted as far as `limit`."""
    (row,) = await tx.rows(sql.generations, join_id=join_id, limit=limit)
    return int(row["number"])


async def _lock(tx: Tx, join_ids: Iterable[str]) -> None:
    """Have nobody else write these until the commit. A writer on SQLite is alone."""
    if tx.dialect == "postgres":
        await tx.rows(sql.lock, batch=batch.ids(join_ids))


async def grow(tx: Tx, join_id: str, expected: int, added: int, now: int) -> bool:
    """Add children; False if somebody else has, or the parent has ended."""
    await _lock(tx, [join_id])
    return bool(await tx.rows(sql.grow, id=join_id, expected=expected, added=added, now=now))


async def seal(tx: Tx, join_id: str, expected: int, now: int) -> bool:
    """Say that all children are there."""
    await _lock(tx, [join_id])
    return bool(await tx.rows(sql.seal, id=join_id, expected=expected, now=now))


async def count_down(tx: Tx, ended: Mapping[str, int], now: int) -> bool:
    """Note how many children of each join have ended; whether one has none left."""
    rows = {join_id: [number] for join_id, number in sorted(ended.items())}
    await _lock(tx, rows)
    return any(row["unended"] <= 0 for row in await tx.rows(sql.count_down, batch=batch.keyed(rows), now=now))


async def ready(tx: Tx, limit: int, floor: int) -> list[tuple[str, int]]:
    """Joins whose children have all ended and whose parent has not been told, by when the last one did."""
    return [(row["id"], row["ended_at"]) for row in await tx.rows(sql.ready, limit=limit, floor=floor)]


async def move(tx: Tx, join_id: str, expected: str, state: str, now: int) -> bool:
    await _lock(tx, [join_id])
    return bool(await tx.rows(sql.move, id=join_id, expected=expected, state=state, now=now))


async def leave(tx: Tx, parents: Iterable[str], now: int) -> bool:
    """Have what these jobs spawned cancelled; whether there is any."""
    return bool(await tx.rows(sql.leave, batch=batch.ids(parents), now=now))


async def left(tx: Tx, limit: int, floor: int) -> list[tuple[str, int]]:
    """Joins whose parent has left its children, by their last change."""
    return [(row["id"], row["updated_at"]) for row in await tx.rows(sql.left, limit=limit, floor=floor)]


async def unended(tx: Tx, join_id: str, limit: int, after: str = NIL) -> list[tuple[Claimed, str | None]]:
    """Children that have not ended, locked, each with its stage's provider."""
    rows = [list(row) for row in await tx.rows(sql.unended, id=join_id, after=after, limit=limit)]
    return [(Claimed._make(values[:-1]), values[-1]) for values in rows]


class ChildOutcome(NamedTuple):
    """How a job ended, or that it has not: its result, or the category of its failure."""

    id: str
    kind: str
    state: str
    stage: str
    error: str | None
    value: str | None
    category: str | None


async def outcomes(tx: Tx, join_id: str, after: str, limit: int) -> list[ChildOutcome]:
    """What came of the children, in the order of their ids."""
    return await tx.rows(sql.outcomes, into=ChildOutcome, id=join_id, after=after, limit=limit)


async def outcome_of(tx: Tx, job_id: str) -> ChildOutcome | None:
    """What came of one job, whether or not it is a child."""
    return await fetch_first(ChildOutcome, tx, sql.outcome_of, id=job_id)


class JoinLine(NamedTuple):
    id: str
    stage: str
    epoch: int
    kind: str
    state: str
    size: int
    unended: int
    created_at: int


async def of_parent(tx: Tx, job_id: str) -> list[JoinLine]:
    return await tx.rows(sql.of_parent, into=JoinLine, parent_id=job_id)


async def parent_of(tx: Tx, job_id: str) -> str | None:
    """The job that has spawned this one; None if nobody has."""
    rows = await tx.rows(sql.parent_of, id=job_id)
    return str(rows[0]["id"]) if rows else None


class ChildLine(NamedTuple):
    id: str
    kind: str
    stage: str
    state: str
    created_at: int
    finished_at: int | None


async def children_of(tx: Tx, job_id: str, limit: int) -> list[ChildLine]:
    """What a job has spawned, over all of its stages, the first ones first."""
    return await tx.rows(sql.children_of, into=ChildLine, parent_id=job_id, limit=limit)


async def forget(tx: Tx, job_ids: Iterable[str]) -> None:
    await tx.rows(sql.forget, batch=batch.ids(job_ids))

"""The past by the minute, and by the hour: counts, and times in buckets. Functions named as the statements in
`rollups.sql`.

    stage   kind, stage, how an attempt ended, how long it ran
    job     kind, queue, how a job ended, how long it waited for its first attempt
    error   kind, stage, error class
    call    provider, kind, outcome, how long it took; the sum is what it cost
    owner   owner, how a job of theirs came (submitted) or an attempt ended, how long a success took from its submission
    spent   owner: how many calls, and their cost as the sum. Of both the owners with the most of a fold by name
    depth   queue, state: how many jobs; the sum is the age of the oldest, in milliseconds
    deploy  release, digest of what is declared: how many workers of it were started
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.stores.seam import Row, Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch

sql = load_statements(Path(__file__).with_suffix(".sql"))
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
BOUNDS = (*(step * 10**power for power in range(8) for step in (1, 2, 5)), 2**53)
"""Upper bounds of the buckets, in milliseconds: to a day and more, each about twice the one before."""
EVENTS, HOURS = "events", "hours"
BACK = 50_000


class Cell(NamedTuple):
    """One number of one minute."""

    at: int
    series: str
    name: str
    part: str
    result: str
    bucket: int
    number: int
    sum: int


class Position(NamedTuple):
    """How far the events are counted, and until when."""

    seq: int
    at: int


async def lock(tx: Tx, name: str) -> Position:
    """The position, which nobody else moves until the commit."""
    rows = await tx.rows(sql.lock, name=name)
    if not rows:
        await tx.rows(sql.begin, name=name, back=BACK)
        rows = await tx.rows(sql.lock, name=name)
    return Position(rows[0]["seq"], rows[0]["at"])


async def move(tx: Tx, name: str, position: Position) -> None:
    await tx.rows(sql.move, name=name, seq=position.seq, at=position.at)


async def reach(tx: Tx, after: int, until: int, limit: int) -> int | None:
    """The last of the next events to count; None if there is none."""
    upto: int | None = (await tx.rows(sql.reach, after=after, until=until, limit=limit))[0]["upto"]
    return upto


async def read(tx: Tx, after: int, upto: int) -> list[Cell]:
    bounds = batch.numbered([bound] for bound in BOUNDS)
    rows = await tx.rows(sql.read, after=after, upto=upto, bounds=bounds)
    columns = ("minute", "series", "name", "part", "result", "bucket", "number", "sum")
    return [Cell(*(row[column] for column in columns)) for row in rows]


async def submitted(tx: Tx, since: int, until: int) -> list[Cell]:
    """Jobs that were submitted between two moments, by owner."""
    rows = await tx.rows(sql.submitted, since_id=_first_id(since), until_id=_first_id(until))
    return [Cell(row["minute"], "owner", row["name"], "", "submitted", 0, row["number"], 0) for row in rows]


def _first_id(at_ms: int) -> str:
    """The least id that a job of this moment may have."""
    digits = f"{max(0, at_ms):012x}"
    return f"{digits[:8]}-{digits[8:]}-7000-8000-000000000000"


async def add(tx: Tx, cells: Iterable[Cell]) -> None:
    await tx.rows(sql.add, batch=batch.numbered(cells))


async def put(tx: Tx, cells: Iterable[Cell]) -> None:
    await tx.rows(sql.put, batch=batch.numbered(cells))


async def fold_hour(tx: Tx, hour: int) -> None:
    await tx.rows(sql.fold_hour, hour=hour)


async def between(
    tx: Tx,
    span: int,
    since: int,
    until: int,
    step: int,
    series: Iterable[str],
    *,
    kind: str | None = None,
    part: str | None = None,
    name: str | None = None,
) -> list[Cell]:
    """Cells of whole steps. `kind` is a name, or a call's part."""
    which = {"kind": kind, "part": part, "name": name, "series": batch.ids(series)}
    rows = await tx.rows(sql.between, span=span, since=since, until=until, step=step, **which)
    return [Cell(*(row[column] for column in Cell._fields)) for row in rows]


async def usual_age(tx: Tx, since: int, until: int) -> list[int]:
    return [row["sum"] for row in await tx.rows(sql.usual_age, since=since, until=until)]


async def prune(tx: Tx, span: int, floor: int, before: int) -> int:
    return len(await tx.rows(sql.prune, span=span, floor=floor, before=before))


async def read_position(tx: Tx, name: str) -> Position | None:
    rows: Sequence[Row] = await tx.rows(sql.position, name=name)
    return Position(rows[0]["seq"], rows[0]["at"]) if rows else None

"""How much there is, counted so far and no further. Functions named as the statements in `depth.sql`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch

sql = load_statements(Path(__file__).with_suffix(".sql"))
COUNT_MAX = 10_000
"""A count that has come to this means: so many, or more."""


class LaneHead(NamedTuple):
    """Jobs in front of a lane, by what they are: `first` is where the count began, `oldest` the earliest `run_at`."""

    kind: str
    stage: str
    version: int
    jobs: int
    first: int
    oldest: int


async def ready(tx: Tx, queue: str, priority: int, floor: int) -> list[LaneHead]:
    return await tx.rows(sql.ready, into=LaneHead, queue=queue, priority=priority, floor=floor, limit=COUNT_MAX)


class LaterHead(NamedTuple):
    """The same of what is not in its lane yet."""

    kind: str
    stage: str
    version: int
    is_due: int
    jobs: int
    first: int
    oldest: int


async def later(tx: Tx, queue: str, now: int, floor: int) -> list[LaterHead]:
    return await tx.rows(sql.later, into=LaterHead, queue=queue, now=now, floor=floor, limit=COUNT_MAX)


async def in_line(tx: Tx, queue: str, priority: int, now: int, floor: int) -> list[LaneHead]:
    return await tx.rows(
        sql.in_line, into=LaneHead, queue=queue, priority=priority, now=now, floor=floor, limit=COUNT_MAX
    )


class QueueCount(NamedTuple):
    """Jobs of a queue: `first` is where the count began, `oldest` the earliest `run_at`."""

    queue: str
    jobs: int
    first: int
    oldest: int


async def processing(tx: Tx, floor: int) -> list[QueueCount]:
    return await tx.rows(sql.processing, into=QueueCount, floor=floor, limit=COUNT_MAX)


async def waiting(tx: Tx, floor: int) -> list[QueueCount]:
    return await tx.rows(sql.waiting, into=QueueCount, floor=floor, limit=COUNT_MAX)


async def parked(tx: Tx, provider: str, floor: int) -> list[QueueCount]:
    return await tx.rows(sql.parked, into=QueueCount, provider=provider, floor=floor, limit=COUNT_MAX)


class DoubtCount(NamedTuple):
    """Effects of a provider whose fate is open."""

    provider: str
    status: str
    effects: int
    first: int


async def doubtful(tx: Tx, floor: int) -> list[DoubtCount]:
    return await tx.rows(sql.doubtful, into=DoubtCount, floor=floor, limit=COUNT_MAX)


class LetterCount(NamedTuple):
    """Dead letters of one sort."""

    category: str
    kind: str
    stage: str
    error_class: str
    failure_reason: str
    letters: int
    first: int


async def letters(tx: Tx, state: str, floor: int) -> list[LetterCount]:
    return await tx.rows(sql.letters, into=LetterCount, state=state, floor=floor, limit=COUNT_MAX)


class DeathCount(NamedTuple):
    """Jobs that died of one thing lately."""

    kind: str
    stage: str
    error_class: str
    category: str
    letters: int
    first_at: int
    owners: int


async def dying(tx: Tx, since: int) -> list[DeathCount]:
    """What jobs died of since then, as far as nobody has looked: the commonest first."""
    return await tx.rows(sql.dying, into=DeathCount, since=since, limit=COUNT_MAX)


class EndedCount(NamedTuple):
    """Jobs of a kind that ended in one state."""

    kind: str
    state: str
    jobs: int


async def finished_since(tx: Tx, since: int) -> list[EndedCount]:
    """What the last `COUNT_MAX` events ended, if that was since then."""
    return await tx.rows(sql.finished_since, into=EndedCount, since=since, limit=COUNT_MAX)


class LiveCount(NamedTuple):
    """Jobs that have not ended, by kind, stage and version of their input."""

    kind: str
    stage: str
    version: int
    jobs: int
    oldest: int


async def standing(tx: Tx, queues: Sequence[str]) -> list[LiveCount]:
    """How many live jobs of these queues stand at each kind, stage and version of input."""
    return await tx.rows(sql.standing, into=LiveCount, queues=batch.ids(queues))

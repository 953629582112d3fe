"""Kinds and queues that a person has paused, and the jobs that wait for them. A row stays when its pause is over: what
a claim set aside just before is let go by it. Functions named as the statements in `pauses.sql`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from holdfast.core.control import Sort
from holdfast.core.floor import BOTTOM
from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch
from holdfast.tables.depth import COUNT_MAX, QueueCount

sql = load_statements(Path(__file__).with_suffix(".sql"))


class Pause(NamedTuple):
    """A kind or a queue: whether it is paused, since when that is so, and who said it, and why."""

    sort: Sort
    name: str
    is_paused: bool
    since: int
    actor: str
    reason: str


async def put(tx: Tx, pause: Pause) -> None:
    fields = pause._asdict()
    await tx.rows(sql.put, now=fields.pop("since"), **{**fields, "is_paused": int(pause.is_paused)})


async def read_every(tx: Tx) -> list[Pause]:
    """What is paused, and what was."""
    return [Pause(*row)._replace(is_paused=bool(row["is_paused"])) for row in await tx.rows(sql.read_every)]


class JobPause(NamedTuple):
    """A pause that a job waits for."""

    sort: str
    name: str
    since: int
    actor: str
    reason: str


async def of_job(tx: Tx, kind: str, queue: str) -> list[JobPause]:
    return await tx.rows(sql.of_job, into=JobPause, kind=kind, queue=queue)


async def is_paused(tx: Tx, sort: Sort, name: str) -> bool:
    return bool(await tx.rows(sql.is_paused, sort=sort, name=name))


class ReleasedJob(NamedTuple):
    queue: str
    updated_at: int


async def release(
    tx: Tx, kind: str, stages: Mapping[str, str | None], limit: int, now: int, floor: int = BOTTOM
) -> list[ReleasedJob]:
    """Let up to `limit` jobs of a kind go, unless it is paused; return the queue of each, and when it was set aside.
    `stages`: the provider of each of the kind's stages."""
    providers = batch.keyed({stage: [provider] for stage, provider in stages.items()})
    return await tx.rows(sql.release, into=ReleasedJob, kind=kind, stages=providers, limit=limit, now=now, floor=floor)


async def held(tx: Tx, kind: str, floor: int = BOTTOM) -> list[QueueCount]:
    """The jobs that wait for a paused kind, by queue, as far as anybody counts them."""
    return await tx.rows(sql.held, into=QueueCount, kind=kind, floor=floor, limit=COUNT_MAX)

"""The append-only history of jobs. What a job's own row shows is not written a second time: its creation, its last
claim and its success are read from there, and the claim of an earlier attempt from the event that ended it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch

sql = load_statements(Path(__file__).with_suffix(".sql"))

NewEvent = tuple[str, int, str, str | None]
"""Job id, attempt, type, data as JSON."""
_PLACE = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,18}))?", re.ASCII)


class JobStep(NamedTuple):
    """One step of a job's history. Its place is `seq` and `part`."""

    seq: int
    part: int
    attempt: int
    type: str
    at: int
    data: str | None


class EventPosition(NamedTuple):
    """How far a reader of a job's story has come: to which event, and to which of the steps that have no event of their
    own. Both only rise, so that no step is read twice or missed, whichever of them comes first. As text, the id of an
    event in a stream."""

    seq: int
    step: int = 0

    def __str__(self) -> str:
        return f"{self.seq}.{self.step}" if self.step else str(self.seq)

    def after(self, read: JobStep) -> EventPosition:
        """The place of a reader who has read this step too."""
        if read.part == 0:
            return self._replace(seq=max(self.seq, read.seq))
        return self._replace(step=max(self.step, 2 * read.attempt + read.part))

    @classmethod
    def parse(cls, text: str | None) -> EventPosition:
        """The place that a reader has come to; the beginning, if the text is no place."""
        match = _PLACE.fullmatch(text or "")
        return cls(int(match[1]), int(match[2] or 0)) if match else BEGINNING


BEGINNING = EventPosition(-1)
"""Comes before every step; the creation stands at 0."""


async def append(tx: Tx, events: Iterable[NewEvent], now: int) -> None:
    await tx.rows(sql.append, batch=batch.numbered(events), now=now)


async def append_once(tx: Tx, job_id: str, attempt: int, type: str, data: str, now: int) -> bool:
    """Append the event unless the job has one of the same type and data. The caller holds the job's row."""
    return bool(await tx.rows(sql.append_once, job_id=job_id, attempt=attempt, type=type, data=data, now=now))


async def of_job(tx: Tx, job_id: str, after: EventPosition = BEGINNING, limit: int = 1_000) -> list[JobStep]:
    """A job's steps in order, from the beginning or after a place. Safe to tail: written under the job's row lock."""
    return await tx.rows(sql.of_job, into=JobStep, job_id=job_id, seq=after.seq, step=after.step, limit=limit)


def positions_of(steps: Iterable[JobStep], after: EventPosition) -> list[tuple[EventPosition, JobStep]]:
    """Each step with the place of a reader who has read it and all before it, from `after` on."""
    placed = []
    for step in steps:
        after = after.after(step)
        placed.append((after, step))
    return placed


async def write_success(tx: Tx, job_id: str) -> None:
    """Write the success that the job's row shows as an event, before the row stops to show it. The caller holds it."""
    await tx.rows(sql.write_success, job_id=job_id)


async def last_data(tx: Tx, job_id: str, type: str) -> str | None:
    """The data of a job's newest event of this type; None if it has none."""
    rows = await tx.rows(sql.last_data, job_id=job_id, type=type)
    return rows[0]["data"] if rows else None


async def failed_in_stage(tx: Tx, job_id: str) -> int:
    """How often the present stage was retried or lost its worker, since it began or the job was replayed."""
    return int((await tx.rows(sql.failed_in_stage, job_id=job_id))[0]["n"])


async def forget(tx: Tx, job_ids: Iterable[str]) -> None:
    await tx.rows(sql.forget, batch=batch.ids(job_ids))

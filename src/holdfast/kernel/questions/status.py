"""How a job stands, and what came of it: what code outside of jobs may ask."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from pydantic import JsonValue

from holdfast.core.failure import Failure
from holdfast.core.family import Success
from holdfast.core.job import TERMINAL, State
from holdfast.errors import InvalidInput, NotEnded, NotFound
from holdfast.kernel.compose.awaited import ask_to_be_told, ended_channel
from holdfast.kernel.compose.children import outcome_of
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.questions.explain import explain
from holdfast.tables import events, jobs, joins

LOOK_S_MIN = 0.05
LOOK_S_MAX_HEARD = 5.0
LOOK_S_MAX_DEAF = 1.0
"""Between two looks at a job that is waited for: the first, and at most, where rings arrive and where they do not."""
ASK_AGAIN_S = 30.0


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job at one moment. `why` says in a sentence why it is where it is, `error` what its last failure was."""

    id: str
    kind: str
    state: State
    stage: str
    attempt: int
    why: str
    error: str | None
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None

    @property
    def has_ended(self) -> bool:
        return self.state in TERMINAL


async def read_status(kernel: Kernel, job_id: str) -> JobStatus:
    """The job as it stands now. Raises `NotFound`."""
    _check_id(job_id)
    why = await explain(kernel, job_id)
    async with kernel.store.reading() as tx:
        row = await jobs.show(tx, job_id)
    if row is None:
        raise NotFound(f"There is no job {job_id}.")
    error = json.loads(row.error) if row.error else None
    return JobStatus(
        id=row.id,
        kind=row.kind,
        state=State(row.state),
        stage=row.stage,
        attempt=row.attempt,
        why=why.sentence,
        error=f"{error['error_class']}: {error['message']}" if error else None,
        created_at=_moment(row.created_at),
        updated_at=_moment(row.updated_at),
        ended_at=None if row.finished_at is None else _moment(row.finished_at),
    )


class EndedJob(NamedTuple):
    """A job that has ended, and what came of it."""

    kind: str
    outcome: Success[Any] | Failure


async def wait_for_end(kernel: Kernel, job_id: str, timeout_s: float, kind: str | None = None) -> EndedJob:
    """What came of the job, once it has ended. Raises `NotEnded` after `timeout_s`, and `NotFound`; a job of another
    `kind` than its caller takes it for is refused at once."""
    if not isinstance(timeout_s, int | float) or not 0 <= timeout_s < math.inf:
        raise InvalidInput(f"The timeout_s of {timeout_s!r} must be a number of seconds of 0 or more.")
    _check_id(job_id)
    loop = asyncio.get_running_loop()
    until, ask_at, look_s = loop.time() + timeout_s, loop.time(), LOOK_S_MIN
    listener = kernel.store.listen(ended_channel(job_id))
    try:
        while True:
            seen = await _look(kernel, job_id, kind)
            left_s = until - loop.time()
            if isinstance(seen, EndedJob):
                return seen
            if left_s <= 0:
                raise NotEnded(f"Job {job_id} has not ended: {seen}.")
            if loop.time() >= ask_at:
                await ask_to_be_told(kernel, job_id)
                ask_at = loop.time() + ASK_AGAIN_S
            elif not await listener.wait(min(left_s, look_s)):
                look_s = min(2 * look_s, LOOK_S_MAX_HEARD if kernel.store.is_heard() else LOOK_S_MAX_DEAF)
    finally:
        listener.close()


async def _look(kernel: Kernel, job_id: str, kind: str | None) -> EndedJob | str:
    """What came of the job, or in words where it is."""
    async with kernel.store.reading() as tx:
        row = await joins.outcome_of(tx, job_id)
    if row is None:
        raise NotFound(f"There is no job {job_id}.")
    if kind is not None and row.kind != kind:
        raise InvalidInput(f"Job {job_id} is of the kind '{row.kind}', not '{kind}'.")
    if State(row.state) in TERMINAL:
        return EndedJob(row.kind, outcome_of(kernel, row))
    return f"it is {row.state} in the stage '{row.stage}'"


async def read_progress(kernel: Kernel, job_id: str) -> dict[str, JsonValue] | None:
    """What the job's handler has reported last with `ctx.progress`; None if nothing yet. Raises `NotFound`."""
    _check_id(job_id)
    async with kernel.store.reading() as tx:
        if await jobs.show(tx, job_id) is None:
            raise NotFound(f"There is no job {job_id}.")
        text = await events.last_data(tx, job_id, "progress")
    progress: dict[str, JsonValue] | None = None if text is None else json.loads(text)
    return progress


def _check_id(job_id: object) -> None:
    """What cannot be an id is not there either."""
    try:
        UUID(job_id if isinstance(job_id, str) else "")
    except ValueError:
        raise NotFound(f"There is no job {job_id}.") from None


def _moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1_000, UTC)

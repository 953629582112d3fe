"""A job, as the claim reads it, and the states it may be in.

    queued --claimed--> processing --done--> succeeded
      ^                     |   \\--buried--> dead --replayed--> queued (a new epoch)
      |<--retried, lost-----|    \\--waits--> waiting --called--> queued
      \\--cancelled--> cancelled   (also from processing and waiting)

    succeeded --taken_back--> dead   (an effect of it turned out not to have happened)

`attempt` is the fence and always rises. `failures` counts what the present stage has used of its budget; `tally` is
what else it has spent, as `core.budget` writes it (None while nothing has gone wrong).
`crashes` counts workers lost while holding the job. `epoch` rises with each replay.

Deadlines are in milliseconds; a job without one (`None`) has all the time there is. The instant of the deadline itself
still counts as in time; one millisecond later is late.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class State(StrEnum):
    QUEUED = "queued"
    PROCESSING = "processing"
    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"

    __hash__ = str.__hash__  # Enum's own is a function of Python; states are looked up for every job


class JobOrder(StrEnum):
    """What a list of jobs is sorted by. The last two show only jobs that have one: those that have not ended and have a
    deadline, the next one first, and those that have failed, the most often first."""

    NEWEST = "newest"
    OLDEST = "oldest"
    DEADLINE = "deadline"
    FAILURES = "failures"


LIVE = frozenset({State.QUEUED, State.PROCESSING, State.WAITING})
TERMINAL = frozenset({State.SUCCEEDED, State.DEAD, State.CANCELLED})

# Every edge a job may take. What ends an attempt asserts it (`kernel.settle`), the statements that claim, replay and
# take back name the state they come from, and the checker knows no other.
EDGES: frozenset[tuple[State, State]] = frozenset(
    {
        (State.QUEUED, State.PROCESSING),
        (State.QUEUED, State.CANCELLED),
        (State.QUEUED, State.DEAD),
        (State.PROCESSING, State.QUEUED),
        (State.PROCESSING, State.WAITING),
        (State.PROCESSING, State.SUCCEEDED),
        (State.PROCESSING, State.DEAD),
        (State.PROCESSING, State.CANCELLED),
        (State.WAITING, State.QUEUED),
        (State.WAITING, State.SUCCEEDED),
        (State.WAITING, State.DEAD),
        (State.WAITING, State.CANCELLED),
        (State.DEAD, State.QUEUED),
        (State.SUCCEEDED, State.DEAD),
    }
)


class Priority:
    """Lower runs first. Four levels, because each is one range scan of the claim."""

    URGENT = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3


PRIORITIES = (Priority.URGENT, Priority.HIGH, Priority.NORMAL, Priority.LOW)


def is_due(run_at: int, now: int) -> int:
    """1 if a job that is written at `now` may be claimed at once. 0 keeps it out of the ready index, so that future
    work never lies in front of due work; the first claim after its time has come lets it in."""
    return 1 if run_at <= now else 0


class Claimed(NamedTuple):
    """A leased job. The order of fields is the order of columns in every statement that returns one."""

    id: str
    kind: str
    queue: str
    stage: str
    state: str
    attempt: int
    failures: int
    crashes: int
    epoch: int
    priority: int
    run_at: int
    created_at: int
    deadline_at: int | None
    first_failure_at: int | None
    not_before: int | None
    owner: str | None
    trace: str | None
    payload: str
    version: int = 1
    """The version of its kind's input that it was enqueued with."""
    done: str | None = ""
    """The names of its completed stages, separated by commas. None: nobody knows (a row of an older schema)."""
    tally: str | None = None
    join_id: str | None = None
    """Which join it is a child of, if a stage of another job has spawned it."""
    last_attempt_at: int | None = None
    """When its last attempt was claimed."""


def budget_ms(deadline_at: int | None, now: int) -> int | None:
    """Milliseconds left until the deadline: 0 once it has passed, None without one."""
    return None if deadline_at is None else max(0, deadline_at - now)


def clip_ms(timeout_ms: int, deadline_at: int | None, now: int) -> int:
    """The timeout for a call made now: never longer than what is left until the deadline."""
    left_ms = budget_ms(deadline_at, now)
    return timeout_ms if left_ms is None else min(timeout_ms, left_ms)


def passes(delay_until: int, deadline_at: int | None) -> bool:
    """Whether waiting until then would be too late, so that failing now is better than sleeping first."""
    return deadline_at is not None and delay_until > deadline_at

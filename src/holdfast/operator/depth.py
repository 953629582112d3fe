"""How deep the queues are, for metrics and the console: read from floors, and each count so far and no further."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from holdfast.core.case import CaseState
from holdfast.core.floor import BOTTOM, SLACK_MS
from holdfast.core.job import PRIORITIES, State
from holdfast.kernel.kernel import Kernel
from holdfast.stores.seam import Tx
from holdfast.tables import depth, pauses, providers
from holdfast.tables.depth import DoubtCount, LaneHead, LaterHead, LetterCount, QueueCount
from holdfast.tables.pauses import Pause

PARKED, PAUSED = "parked", "paused"
Counted = TypeVar("Counted", LaneHead, LaterHead, QueueCount, DoubtCount, LetterCount)
Read = Callable[[int], Awaitable[list[Counted]]]


@dataclass(frozen=True, slots=True)
class Depth:
    """The jobs of one queue in one state; those held for a provider are `parked`, those of a
    paused kind `paused`. `oldest` is the earliest `run_at`."""

    queue: str
    state: str
    jobs: int
    oldest: int


@dataclass(slots=True)
class Depths:
    """What one look found: the counts, and where the due jobs in front of each queue stand (kind, stage, version)."""

    jobs: Counter[tuple[str, str]] = field(default_factory=Counter)
    oldest: dict[tuple[str, str], int] = field(default_factory=dict)
    due: dict[str, list[LaneHead | LaterHead]] = field(default_factory=dict)
    parked: Counter[str] = field(default_factory=Counter)
    """By provider."""
    paused: Counter[str] = field(default_factory=Counter)
    """By kind."""
    pauses: list[Pause] = field(default_factory=list)

    def add(self, queue: str, state: str, counts: Iterable[LaneHead | LaterHead | QueueCount]) -> None:
        key = (queue, state)
        for count in counts:
            self.jobs[key] += count.jobs
            self.oldest[key] = min(count.oldest, self.oldest.get(key, count.oldest))

    def add_queues(self, state: str, counts: Iterable[QueueCount], queues: Collection[str]) -> None:
        """Those of these queues; others are of another system in the same database."""
        for count in counts:
            if count.queue in queues:
                self.add(count.queue, state, [count])

    def every(self) -> list[Depth]:
        return [Depth(*key, number, self.oldest[key]) for key, number in sorted(self.jobs.items())]


async def read_depths(kernel: Kernel, tx: Tx) -> Depths:
    """One look at every queue of the loaded apps."""
    found, now = Depths(), kernel.now()
    for queue in kernel.queues:
        late = await _read(kernel, partial(depth.later, tx, queue, now), "later", queue)
        found.add(queue, State.QUEUED, late)
        found.due[queue] = [row for row in late if row.is_due]
        for priority in PRIORITIES:
            head = await _read(kernel, partial(depth.ready, tx, queue, priority), "ready", queue, str(priority))
            found.add(queue, State.QUEUED, head)
            found.due[queue] += head
        for priority in PRIORITIES:  # also where this code takes no turns: that of before or beside it may
            waiting = partial(depth.in_line, tx, queue, priority, now)
            in_line = await _read(kernel, waiting, "in line", queue, str(priority))
            found.add(queue, State.QUEUED, in_line)
            found.due[queue] += in_line
    ours = set(kernel.queues)
    for state, read in ((State.PROCESSING, depth.processing), (State.WAITING, depth.waiting)):
        rows = await _read(kernel, partial(read, tx), state)
        found.add_queues(state, rows, ours)
    for provider in await providers.names(tx):
        rows = await _read(kernel, partial(depth.parked, tx, provider), PARKED, provider)
        found.parked[provider] = sum(row.jobs for row in rows)
        found.add_queues(PARKED, rows, ours)
    found.pauses = [pause for pause in await pauses.read_every(tx) if pause.is_paused]
    for pause in found.pauses:
        if pause.sort == "kind":
            rows = await _read(kernel, partial(pauses.held, tx, pause.name), PAUSED, pause.name)
            found.paused[pause.name] = sum(row.jobs for row in rows)
            found.add_queues(PAUSED, rows, ours)
    return found


def ready_floors(kernel: Kernel, queue: str) -> list[int]:
    """Where the last look at a queue's depth came upon its first due job, priority by priority."""
    return [kernel.floors.times("depth", "ready", queue, str(priority)).at or BOTTOM for priority in PRIORITIES]


async def read_doubtful(kernel: Kernel, tx: Tx) -> list[DoubtCount]:
    """Effects whose fate is open, by provider and status."""
    return await _read(kernel, partial(depth.doubtful, tx), "doubtful")


async def read_letters(kernel: Kernel, tx: Tx) -> list[tuple[str, LetterCount]]:
    """Dead letters by state, and how many of each sort."""
    letters: list[tuple[str, LetterCount]] = []
    for state in CaseState:
        rows = await _read(kernel, partial(depth.letters, tx, state), "letters", state)
        letters += [(state, row) for row in rows]
    return letters


async def _read(kernel: Kernel, read: Read[Counted], *name: str) -> list[Counted]:
    """Rows from the floor on, which moves up to the first of them."""
    with kernel.floors.times("depth", *name).scan(kernel.now) as scan:
        now = kernel.now()
        rows = await read(scan.start or BOTTOM)
        scan.reached(min((row.first for row in rows), default=now - SLACK_MS))
    return rows

"""How deep the queues are, for metrics and the console: read from floors, and each count so far and no further."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from holdfast.core.case import CaseState
from holdfast.core.floor import BOTTOM, SLACK_MS
from holdfast.core.job import PRIORITIES, State
from holdfast.kernel.kernel import Kernel
from holdfast.stores.seam import Row, Tx
from holdfast.tables import depth, pauses, providers
from holdfast.tables.pauses import Pause

PARKED, PAUSED = "parked", "paused"
Read = Callable[[int], Awaitable[Sequence[Row]]]


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
    due: dict[str, list[Row]] = field(default_factory=dict)
    parked: Counter[str] = field(default_factory=Counter)
    """By provider."""
    paused: Counter[str] = field(default_factory=Counter)
    """By kind."""
    pauses: list[Pause] = field(default_factory=list)

    def add(self, state: str, rows: Iterable[Row], queue: str | None = None) -> None:
        for row in rows:
            key = (queue or row["queue"], state)
            self.jobs[key] += row["jobs"]
            self.oldest[key] = min(row["oldest"], self.oldest.get(key, row["oldest"]))

    def every(self) -> list[Depth]:
        return [Depth(*key, number, self.oldest[key]) for key, number in sorted(self.jobs.items())]


async def read_depths(kernel: Kernel, tx: Tx) -> Depths:
    """One look at every queue of the loaded apps."""
    found, now = Depths(), kernel.now()
    for queue in kernel.registry.queues:
        late = await _read(kernel, partial(depth.later, tx, queue, now), "later", queue)
        found.add(State.QUEUED, late, queue)
        found.due[queue] = [row for row in late if row["is_due"]]
        for priority in PRIORITIES:
            head = await _read(kernel, partial(depth.ready, tx, queue, priority), "ready", queue, str(priority))
            found.add(State.QUEUED, head, queue)
            found.due[queue] += head
        if kernel.registry.fair is not None and queue in kernel.registry.fair.queues:
            for priority in PRIORITIES:
                waiting = partial(depth.in_line, tx, queue, priority, now)
                in_line = await _read(kernel, waiting, "in line", queue, str(priority))
                found.add(State.QUEUED, in_line, queue)
                found.due[queue] += in_line
    ours = set(kernel.registry.queues)
    for state, read in ((State.PROCESSING, depth.processing), (State.WAITING, depth.waiting)):
        rows = await _read(kernel, partial(read, tx), state)
        found.add(state, [row for row in rows if row["queue"] in ours])
    for provider in await providers.names(tx):
        rows = await _read(kernel, partial(depth.parked, tx, provider), PARKED, provider)
        found.parked[provider] = sum(row["jobs"] for row in rows)
        found.add(PARKED, [row for row in rows if row["queue"] in ours])
    found.pauses = [pause for pause in await pauses.read_every(tx) if pause.is_paused]
    for pause in found.pauses:
        if pause.sort == "kind":
            rows = await _read(kernel, partial(pauses.held, tx, pause.name), PAUSED, pause.name)
            found.paused[pause.name] = sum(row["jobs"] for row in rows)
            found.add(PAUSED, [row for row in rows if row["queue"] in ours])
    return found


def ready_floors(kernel: Kernel, queue: str) -> list[int]:
    """Where the last look at a queue's depth came upon its first due job, priority by priority."""
    return [kernel.floors.times("depth", "ready", queue, str(priority)).at or BOTTOM for priority in PRIORITIES]


async def read_doubtful(kernel: Kernel, tx: Tx) -> Sequence[Row]:
    """Effects whose fate is open, by provider and status."""
    return await _read(kernel, partial(depth.doubtful, tx), "doubtful")


async def read_letters(kernel: Kernel, tx: Tx) -> list[tuple[str, Row]]:
    """Dead letters by state, and how many of each sort."""
    letters: list[tuple[str, Row]] = []
    for state in CaseState:
        rows = await _read(kernel, partial(depth.letters, tx, state), "letters", state)
        letters += [(state, row) for row in rows]
    return letters


async def _read(kernel: Kernel, read: Read, *name: str) -> Sequence[Row]:
    """Rows from the floor on, which moves up to the first of them."""
    with kernel.floors.times("depth", *name).scan(kernel.now) as scan:
        now = kernel.now()
        rows = await read(scan.start or BOTTOM)
        scan.reached(min((row["first"] for row in rows), default=now - SLACK_MS))
    return rows

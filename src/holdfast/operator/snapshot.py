"""How a system is at this moment, read from its store: for the lights, the metrics, the overview and the front page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.core.breaker import TRIAL_WAIT_MS, BreakerState, Gate
from holdfast.core.case import CaseState
from holdfast.core.failure import Category, failure
from holdfast.core.floor import BOTTOM, SLACK_MS
from holdfast.core.job import State
from holdfast.core.redact import redact_text
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.questions.deploy import Undeclared, undeclared
from holdfast.kernel.upkeep.relocate import find_queues
from holdfast.operator import incident_news
from holdfast.operator.depth import Depths, read_depths, read_doubtful, read_letters, ready_floors
from holdfast.stores.seam import Tx
from holdfast.tables import audit, depth, horizon, incidents, ops, outbox, providers, rollups, workers
from holdfast.tables.audit import ActCount
from holdfast.tables.cases import CaseGroup
from holdfast.tables.depth import DeathCount, LetterCount
from holdfast.tables.horizon import NOBODY, Horizon
from holdfast.tables.incidents import Hit
from holdfast.tables.outbox import OutboxLag
from holdfast.tables.pauses import Pause
from holdfast.tables.providers import StoredProvider
from holdfast.tables.workers import SeenWorker

LOOK_CLOSER_S = 60.0
"""A queue that waits for so long is looked at closer: whose jobs they are, and when the first is late."""
CALLS_BEFORE_MS = 600_000
DYING_MS = 900_000
ACTS_MS = 3_600_000
USUAL_MS = 3_600_000
MINUTES_TO_JUDGE = 30
UNWORKED = (CaseState.OPEN, CaseState.ESCALATED, CaseState.TRIAGED, CaseState.REMEDIATED)
"""Dead letters that still ask something of a person."""


@dataclass(frozen=True, slots=True)
class Lane:
    """The jobs of one queue in one state; those held for a provider are `parked`."""

    queue: str
    state: str
    jobs: int
    oldest_age_s: float


@dataclass(frozen=True, slots=True)
class BreakerView:
    name: str
    state: BreakerState
    parked: int
    not_before: int | None
    updated_at: int | None

    def open_s(self, now: int) -> float:
        """How long the present outage lasts: from its first opening, through all trials that failed since."""
        began_at = self.began_at()
        return 0.0 if began_at is None else max(0, now - began_at) / 1_000

    def began_at(self) -> int | None:
        """When the present outage began; None while the gate is closed."""
        return None if self.state.gate is Gate.CLOSED else self.state.down_since or self.state.opened_at

    def is_untried(self, now: int) -> bool:
        """Whether it may be tried, and for a while nobody has: no job is left that could, so nobody knows how it is."""
        is_idle = self.state.gate is Gate.HALF_OPEN and not self.state.permits and not self.parked
        return is_idle and now - (self.updated_at or 0) >= TRIAL_WAIT_MS


class PauseView(NamedTuple):
    """A kind or queue that is paused, and how many jobs wait for it, as far as they were counted."""

    pause: Pause
    jobs: int


class DyingJobs(NamedTuple):
    """Jobs that died lately of one thing that is no caller's mistake, and that nobody has looked at."""

    kind: str
    stage: str
    error_class: str
    category: str
    letters: int
    first_at: int
    owners: int = 0


class AtRisk(NamedTuple):
    """Jobs that have used three quarters of their time and have not ended; at most `ops.AT_RISK_MAX` are counted."""

    jobs: int = 0
    first_at: int | None = None
    """When the first of them misses its deadline."""


NO_RISK = AtRisk()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One system, read in one transaction."""

    now: int
    lanes: Sequence[Lane]
    outbox_pending: int
    outbox_lag_s: float
    letters: dict[tuple[str, str, str], int]
    """How many, by state, category of failure and cause."""
    letters_late: int = field(default=0, kw_only=True)
    """How many of the open ones came too late: that is nobody's bug."""
    bugs_in: Sequence[tuple[str, str]] = field(default=(), kw_only=True)
    """In which stages of which kinds open letters are of a bug, those with the most first."""
    breakers: Sequence[BreakerView]
    effects: Sequence[tuple[str, str, int]]
    workers_alive: int
    served_queues: frozenset[str] = frozenset()
    """The queues of workers that reported lately, and take jobs."""
    pauses: Sequence[PauseView] = ()
    at_risk: AtRisk = NO_RISK
    dying: Sequence[DyingJobs] = ()
    messages_aside: int = 0
    acts: Sequence[ActCount] = ()
    """What people did within the last hour, in whatever process: the command line's counts for nothing when it ends."""
    usual_age_s: float | None = None
    """How old the oldest due job mostly was in the last hour, before that of now came; None if too few minutes tell."""
    broker_trouble: str | None = None
    write_trouble: str | None = None
    """What keeps the database from being written, if somebody has tried (`holdfast.operator.outside`)."""
    undeclared: Sequence[Undeclared] = ()
    horizon: Horizon = NOBODY
    held_for: Mapping[str, Hit] = field(default_factory=dict)
    """Who waits for each provider that is not called at present."""
    due_in: Mapping[str, Hit] = field(default_factory=dict)
    """Who waits in each queue that nobody serves, or that has been waiting for long."""

    @property
    def dead_letters(self) -> dict[str, int]:
        """How many there are by state."""
        found: dict[str, int] = {}
        for (state, _, _), number in self.letters.items():
            found[state] = found.get(state, 0) + number
        return found

    @property
    def dead_letters_open(self) -> int:
        """Those that ask something of a person who runs the service."""
        return self._unworked("service")

    @property
    def dead_letters_quiet(self) -> int:
        """Those of callers' own mistakes: they were told, and nobody here can fix it."""
        return self._unworked("input")

    def _unworked(self, wanted: str) -> int:
        counted = ((state, cause, number) for (state, _, cause), number in self.letters.items())
        return sum(number for state, cause, number in counted if state in UNWORKED and cause == wanted)


async def snapshot(kernel: Kernel) -> Snapshot:
    now = kernel.now()
    async with kernel.store.reading() as tx:
        await find_queues(kernel, tx)
        lag = await _lag(kernel, tx)
        depths = await read_depths(kernel, tx)
        alive = [row for row in await workers.read_every(tx) if row.seen_at >= now - workers.FRESH_MS]
        taking = [row for row in alive if row.drain_at is None]
        served = frozenset(name for row in taking for name in row.queues.split(",") if name)
        lanes = [Lane(each.queue, each.state, each.jobs, _age_s(each.oldest, now)) for each in depths.every()]
        gates = _breakers(kernel, await providers.read_every(tx), depths.parked)
        letters = await read_letters(kernel, tx)
        return Snapshot(
            now=now,
            lanes=lanes,
            outbox_pending=lag.pending,
            outbox_lag_s=_age_s(lag.oldest, now),
            letters=_letters(kernel, letters),
            letters_late=_late(letters),
            bugs_in=_bugs_in(kernel, letters),
            breakers=gates,
            effects=[(row.provider, row.status, row.effects) for row in await read_doubtful(kernel, tx)],
            workers_alive=sum(map(_works, alive)),
            served_queues=served,
            pauses=[PauseView(pause, _waiting_for(pause, depths)) for pause in depths.pauses],
            at_risk=AtRisk(*await ops.at_risk(tx, now)),
            dying=[
                DyingJobs(*row) for row in await depth.dying(tx, now - DYING_MS) if name_cause(kernel, row) == "service"
            ],
            messages_aside=await ops.messages_aside(tx),
            acts=await audit.acts_since(tx, now - ACTS_MS),
            usual_age_s=await _usual_age_s(tx, lanes, now),
            broker_trouble=_broker_trouble(kernel),
            undeclared=await undeclared(kernel, tx, depths.due),
            horizon=await horizon.read(tx),
            held_for=await _held_for(kernel, tx, gates),
            due_in={
                lane.queue: await incidents.due_in(tx, lane.queue, ready_floors(kernel, lane.queue))
                for lane in lanes
                if _is_late(lane, served)
            },
        )


def _works(worker: SeenWorker) -> bool:
    """A process that only tells of incidents takes no job that somebody has submitted."""
    return set(worker.queues.split(",")) != {incident_news.APP}


async def _usual_age_s(tx: Tx, lanes: Sequence[Lane], now: int) -> float | None:
    """Of the minutes before the job that is the oldest now was due: what goes on is no measure of itself."""
    oldest_s = max((lane.oldest_age_s for lane in lanes if lane.state == "queued"), default=0.0)
    ages = sorted(await rollups.usual_age(tx, now - USUAL_MS, now - int(oldest_s * 1_000)))
    return ages[len(ages) // 2] / 1_000 if len(ages) >= MINUTES_TO_JUDGE else None


def _waiting_for(pause: Pause, depths: Depths) -> int:
    return depths.paused[pause.name] if pause.sort == "kind" else depths.jobs[pause.name, State.QUEUED]


async def _lag(kernel: Kernel, tx: Tx) -> OutboxLag:
    with kernel.floors.times("lag").scan(kernel.now) as scan:
        now = kernel.now()
        lag = await outbox.lag(tx, scan.start or BOTTOM)
        scan.reached(now - SLACK_MS if lag.first is None else lag.first)
    return lag


async def _held_for(kernel: Kernel, tx: Tx, gates: Sequence[BreakerView]) -> dict[str, Hit]:
    """Read only while a gate is not closed: a well system pays nothing for it."""
    found: dict[str, Hit] = {}
    for gate in gates:
        began_at = gate.began_at()
        if began_at is None:
            continue
        with kernel.floors.times("held for", gate.name).scan(kernel.now) as scan:
            now = kernel.now()
            hit, first = await incidents.held_for(tx, gate.name, scan.start or BOTTOM)
            scan.reached(now - SLACK_MS if first is None else first)
        found[gate.name] = hit._replace(answer=await incidents.last_answer(tx, gate.name, began_at - CALLS_BEFORE_MS))
    return found


def _is_late(lane: Lane, served: frozenset[str]) -> bool:
    return lane.state == "queued" and (
        lane.oldest_age_s >= LOOK_CLOSER_S or (lane.oldest_age_s > 0 and lane.queue not in served)
    )


def _broker_trouble(kernel: Kernel) -> str | None:
    """Why this process cannot reach the broker, or consume a queue of it, redacted; None if it can, or has none."""
    if kernel.transport is None:
        return None
    stalled = [f"'{queue}' is not consumed: {why}" for queue, why in kernel.transport.stalled().items()]
    trouble = kernel.transport.trouble() or next(iter(stalled), None)
    return None if trouble is None else redact_text(trouble)


def _letters(kernel: Kernel, rows: Sequence[tuple[str, LetterCount]]) -> dict[tuple[str, str, str], int]:
    found: Counter[tuple[str, str, str]] = Counter()
    for state, row in rows:
        found[state, row.category, name_cause(kernel, row)] += row.letters
    return found


def name_cause(kernel: Kernel, death: LetterCount | DeathCount | CaseGroup) -> str:
    """`input` where the users of a kind are told that what they gave is the cause, else `service`."""
    why = failure(Category(death.category), death.error_class, "")
    return kernel.registry.public_failure(death.kind, why, death.stage).cause


def _late(rows: Sequence[tuple[str, LetterCount]]) -> int:
    late = [row for state, row in rows if state == CaseState.OPEN and row.failure_reason == "deadline"]
    return sum(row.letters for row in late if row.category == Category.BUG)


def _bugs_in(kernel: Kernel, rows: Sequence[tuple[str, LetterCount]]) -> list[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for state, row in rows:
        is_bug = row.category == Category.BUG and row.failure_reason != "deadline"
        if state == CaseState.OPEN and is_bug and name_cause(kernel, row) == "service":
            found[row.kind, row.stage] += row.letters
    return [place for place, _ in found.most_common()]


def _breakers(kernel: Kernel, rows: Sequence[StoredProvider], parked: Mapping[str, int]) -> list[BreakerView]:
    """Every provider: those that ever were in trouble by their row, the others as closed."""
    known = {row.name: _breaker(row, parked.get(row.name, 0)) for row in rows}
    for name in kernel.registry.providers:
        known.setdefault(name, BreakerView(name, BreakerState(), 0, None, None))
    return [known[name] for name in sorted(known)]


def _breaker(row: StoredProvider, parked: int) -> BreakerView:
    return BreakerView(row.name, providers.state_of(row), parked, row.not_before, row.updated_at)


def _age_s(oldest: int | None, now: int) -> float:
    return 0.0 if oldest is None else max(0, now - oldest) / 1_000

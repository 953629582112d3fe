"""How a system is at this moment, read from its store: for the lights, the metrics, the overview and the front page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.core.breaker import BreakerState, Gate, from_row
from holdfast.core.case import CaseState
from holdfast.core.failure import Category, failure
from holdfast.core.floor import BOTTOM, SLACK_MS
from holdfast.core.redact import redact_text
from holdfast.kernel.deploy import WORKER_FRESH_MS, Undeclared, undeclared
from holdfast.kernel.depth import read_depths, read_doubtful, read_letters
from holdfast.kernel.kernel import Kernel
from holdfast.stores.seam import Row, Tx
from holdfast.tables import breakers, horizon, ops, outbox, workers
from holdfast.tables.horizon import NOBODY, Horizon

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
    breakers: Sequence[BreakerView]
    effects: Sequence[tuple[str, str, int]]
    workers_alive: int
    served_queues: frozenset[str] = frozenset()
    """The queues of workers that reported lately."""
    at_risk: AtRisk = NO_RISK
    messages_aside: int = 0
    broker_trouble: str | None = None
    undeclared: Sequence[Undeclared] = ()
    horizon: Horizon = NOBODY

    @property
    def dead_letters(self) -> dict[str, int]:
        """How many there are by state."""
        found: dict[str, int] = {}
        for (state, _, _), number in self.letters.items():
            found[state] = found.get(state, 0) + number
        return found

    @property
    def dead_letters_open(self) -> int:
        return sum(self.dead_letters.get(state, 0) for state in UNWORKED)


async def snapshot(kernel: Kernel) -> Snapshot:
    now = kernel.now()
    async with kernel.store.reading() as tx:
        lag = await _lag(kernel, tx)
        depths = await read_depths(kernel, tx)
        alive = [row for row in await workers.every(tx) if row["seen_at"] >= now - WORKER_FRESH_MS]
        return Snapshot(
            now=now,
            lanes=[Lane(one.queue, one.state, one.jobs, _age_s(one.oldest, now)) for one in depths.every()],
            outbox_pending=lag["pending"],
            outbox_lag_s=_age_s(lag["oldest"], now),
            letters=_letters(kernel, await read_letters(tx)),
            breakers=_breakers(kernel, await breakers.every(tx), depths.parked),
            effects=[(row["provider"], row["status"], row["effects"]) for row in await read_doubtful(kernel, tx)],
            workers_alive=len(alive),
            served_queues=frozenset(name for row in alive for name in row["queues"].split(",") if name),
            at_risk=AtRisk(*await ops.at_risk(tx, now)),
            messages_aside=await ops.messages_aside(tx),
            broker_trouble=_broker_trouble(kernel),
            undeclared=await undeclared(kernel, tx, depths.due),
            horizon=await horizon.read(tx),
        )


async def _lag(kernel: Kernel, tx: Tx) -> Row:
    with kernel.floors.times("lag").scan(kernel.now) as scan:
        now = kernel.now()
        lag = await outbox.lag(tx, scan.start or BOTTOM)
        scan.reached(now - SLACK_MS if lag["first"] is None else lag["first"])
    return lag


def _broker_trouble(kernel: Kernel) -> str | None:
    """Why this process cannot reach the broker, redacted; None if it can, or has none."""
    trouble = kernel.transport.trouble() if kernel.transport is not None else None
    return None if trouble is None else redact_text(trouble)


def _letters(kernel: Kernel, rows: Sequence[tuple[str, Row]]) -> dict[tuple[str, str, str], int]:
    found: Counter[tuple[str, str, str]] = Counter()
    for state, row in rows:
        why = failure(Category(row["category"]), row["error_class"], "")
        cause = kernel.registry.public_failure(row["kind"], why, row["stage"]).cause
        found[state, row["category"], cause] += row["letters"]
    return found


def _breakers(kernel: Kernel, rows: Sequence[Row], parked: Mapping[str, int]) -> list[BreakerView]:
    """Every provider: those that ever were in trouble by their row, the others as closed."""
    known = {row["name"]: _breaker(row, parked.get(row["name"], 0)) for row in rows}
    for name in kernel.registry.providers:
        known.setdefault(name, BreakerView(name, BreakerState(), 0, None, None))
    return [known[name] for name in sorted(known)]


def _breaker(row: Row, parked: int) -> BreakerView:
    stored = json.loads(row["state"])
    state = from_row(stored) if stored else BreakerState()
    return BreakerView(row["name"], state, parked, row["not_before"], row["updated_at"])


def _age_s(oldest: int | None, now: int) -> float:
    return 0.0 if oldest is None else max(0, now - oldest) / 1_000

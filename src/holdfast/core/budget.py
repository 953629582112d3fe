"""What a job has spent, and what of it costs nothing after all.

A failure spends budget only if it says something about the job. These say nothing about it, and are free:

    the provider was known to be down   its breaker was not closed, or has left the generation the call was made in
    the provider asked to wait          any 429; a 503 or 529 with Retry-After; whatever is classified as a rate limit

A closed breaker leaves its generation only by opening. So a provider's fault that was counted while the breaker was
closed is remembered with that generation; once the breaker is in another one, the fault was among those that opened
it, and is given back.

Why so: docs/decisions/0007-what-spends-a-budget.md
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.core.breaker import BreakerState, Gate
from holdfast.core.failure import Category, Failure

UNAVAILABLE_STATUSES = frozenset({503, 529})
Gates = Mapping[str, BreakerState]
"""Provider -> its breaker as it is now. Of a provider that is missing nothing is known."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a call that failed stands to its provider's breaker: the generation it was admitted in, and whether the
    failure is the provider's fault. `hold_max_ms` is for how long in all the provider may put a job off."""

    provider: str
    generation: int
    is_fault: bool
    hold_max_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """What a job's row remembers besides the failures of its stage.

    `earlier` are the failures of its earlier stages. `faults` are those of this stage's failures that may be given
    back: provider -> (generation of its breaker, how many). `waits` is how often in a row a provider asked to wait,
    `held_ms` for how long in all in this stage."""

    earlier: int = 0
    faults: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    waits: int = 0
    held_ms: int = 0


EMPTY = Tally()


def to_text(tally: Tally) -> str | None:
    """As the row holds it: only what is not zero; None for a job that never met a failure."""
    values = {
        "earlier": tally.earlier,
        "faults": {name: list(counted) for name, counted in tally.faults.items()},
        "waits": tally.waits,
        "held_ms": tally.held_ms,
    }
    kept = {name: value for name, value in values.items() if value}
    return json.dumps(kept, separators=(",", ":"), sort_keys=True) if kept else None


def from_text(text: str | None) -> Tally:
    if not text:
        return EMPTY
    row = json.loads(text)
    faults = {name: (generation, count) for name, (generation, count) in row.get("faults", {}).items()}
    return Tally(row.get("earlier", 0), faults, row.get("waits", 0), row.get("held_ms", 0))


def asks_to_wait(failure: Failure) -> bool:
    """Whether the provider answered that it wants to be called later: that says nothing about the job."""
    unavailable = failure.status in UNAVAILABLE_STATUSES and failure.retry_after_ms is not None
    return failure.category is Category.RATE_LIMIT or unavailable


def is_known_down(standings: Sequence[Standing], gates: Gates) -> bool:
    """Whether each failure is the fault of a provider that is known to be down, or was while it was called."""
    return bool(standings) and all(
        standing.is_fault and standing.provider in gates and _has_left(standing.provider, standing.generation, gates)
        for standing in standings
    )


def refunded(failures: int, tally: Tally, gates: Gates) -> tuple[int, Tally]:
    """The failures and the tally without the faults that turned out to be an outage."""
    kept = {
        name: (generation, count)
        for name, (generation, count) in tally.faults.items()
        if name not in gates or not _has_left(name, generation, gates)
    }
    if len(kept) == len(tally.faults):
        return failures, tally
    given_back = sum(count for name, (_, count) in tally.faults.items() if name not in kept)
    return max(0, failures - given_back), replace(tally, faults=kept)


def with_failure(tally: Tally, standings: Sequence[Standing]) -> Tally:
    """The tally after one more failure that counts; a provider's fault may be given back later."""
    faults = dict(tally.faults)
    if standings and all(standing.is_fault for standing in standings):
        name, generation = standings[0].provider, standings[0].generation
        before = faults.get(name, (generation, 0))
        faults[name] = (generation, before[1] + 1 if before[0] == generation else 1)
    return replace(tally, faults=faults, waits=0)


def with_wait(tally: Tally, wait_ms: int) -> Tally:
    """The tally after a provider asked once more to be called later."""
    return replace(tally, waits=tally.waits + 1, held_ms=tally.held_ms + wait_ms)


def strictest_hold_ms(standings: Sequence[Standing]) -> int | None:
    """The least of the bounds that the providers of a failed call set to holding; None if none does."""
    return min((standing.hold_max_ms for standing in standings if standing.hold_max_ms is not None), default=None)


def within_hold(tally: Tally, run_at: int, now: int, hold_max_ms: int | None) -> int | None:
    """When to look at a job again that its provider puts off until `run_at`: no later than the bound on all its waits
    allows, None where nothing is left of that. A job that is still put off at the bound dies then; one whose
    wait somebody has ended meanwhile is saved."""
    if hold_max_ms is None or run_at <= now:
        return run_at
    left_ms = hold_max_ms - tally.held_ms
    return min(run_at, now + left_ms) if left_ms > 0 else None


def _has_left(name: str, generation: int, gates: Gates) -> bool:
    state = gates[name]
    return state.gate is not Gate.CLOSED or state.generation != generation

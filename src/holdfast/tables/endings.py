"""How ended attempts travel to the database: each with its own fence, and what many of them come to once.

Most of a group end alike: of the same stage, with the same next row. So that row is written once, as a `Fate`, and each
attempt names its own: the database reads three fields of an attempt in place of twenty-two.

Why so: docs/decisions/0048-sorted-and-owned.md
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from holdfast.core.decide import Decision
from holdfast.core.job import Claimed, State, is_due
from holdfast.tables import batch


class EndingRow(NamedTuple):
    """One attempt's end, fenced: the job must still be in `expected` at `attempt`."""

    job: Claimed
    expected: State
    decision: Decision
    error: str | None
    data: str | None
    value: str | None = None
    """The stage's result as JSON, if it is one to keep."""
    done: str | None = None
    """The stages completed so far, if that has changed."""
    goes_on: bool = False
    """Whether the next stage is to be leased with this end, to whoever holds the job."""


Endings = Sequence[EndingRow]


class Fate(NamedTuple):
    """What becomes of an attempt, as it travels: the state that it is left from, the job's columns, its event."""

    expected: str
    state: str
    stage: str
    run_at: int
    failures: int
    crashes: int
    provider: str | None
    not_before: int | None
    first_failure_at: int | None
    wait_key: str | None
    error: str | None
    hold: str | None
    is_due: int
    done: str | None
    tally: str | None
    event: str
    data: str | None
    from_stage: str
    claimed_at: int | None
    goes_on: int


def pack(endings: Endings, claims: bool, now: int) -> dict[str, str]:
    """The parameters `batch` and `fates` of a statement: by job its attempt, the place of its fate, and its result.
    `claims`: whoever ends these claims as well."""
    places: dict[tuple[Any, ...], str] = {}
    rows = {}
    for ending in endings:
        fate = _fate(ending, claims, now)
        place = places.get(fate)
        if place is None:
            place = places[fate] = str(len(places))
        rows[ending.job.id] = (ending.job.attempt, place, ending.value)
    return {"batch": batch.keyed(rows), "fates": batch.numbered(places)}


def _fate(ending: EndingRow, claims: bool, now: int) -> tuple[Any, ...]:
    """The fields of `Fate`, in their order. A plain tuple: JSON takes 1.6 times as long to write a named one."""
    job, expected, decision, error, data, _, done, goes_on = ending
    return (
        expected,
        decision.state,
        decision.stage,
        decision.run_at,
        decision.failures,
        decision.crashes,
        decision.provider,
        decision.not_before,
        decision.first_failure_at,
        decision.wait_key,
        error,
        decision.hold,
        is_due_again(ending, claims, now),
        done,
        decision.tally,
        decision.event,
        data,
        job.stage,
        job.last_attempt_at if expected is State.PROCESSING else None,
        int(goes_on),
    )


def is_due_again(ending: EndingRow, claims: bool, now: int) -> int:
    """Whether the job goes straight back into its lane: for its next stage, if whoever puts it there claims as well and
    so knows of it. What is parked at once is in no lane. Everything else comes back through the later lane, where every
    claim sees it."""
    decision = ending.decision
    is_known = decision.hold == "limit" or (claims and decision.event == "advanced")
    return is_due(decision.run_at, now) if is_known else 0


def steps_to_write(accepted: Endings) -> dict[str, tuple[Any, ...]]:
    """What is written as events of these ends, by job: of the successes of a kind and owner one, with how many others
    there were."""
    steps = {}
    successes: Counter[tuple[str, str | None]] = Counter()
    last: dict[tuple[str, str | None], EndingRow] = {}
    for ending in accepted:
        if ending.decision.event == "succeeded":
            group = ending.job.kind, ending.job.owner
            successes[group] += 1
            last[group] = ending
        else:
            steps[ending.job.id] = _step(ending, ending.data)
    for group, ending in last.items():
        steps[ending.job.id] = _step(ending, str(successes[group] - 1) if successes[group] > 1 else None)
    return steps


def _step(ending: EndingRow, data: str | None) -> tuple[Any, ...]:
    claimed_at = ending.job.last_attempt_at if ending.expected is State.PROCESSING else None
    return ending.job.attempt, ending.decision.event, data, claimed_at

"""A circuit breaker as a value: one row per provider, shared by every worker through the store.

    CLOSED --too many of the last calls failed--> OPEN --cooldown over--> HALF_OPEN   (mode "trials")
      ^                                            ^ |                      | |
      |                                            | |    a trial failed    | |
      |                                            +-|----------------------+ |
      +---- good probes (mode "hold") or a person ---+                        |
      +---------------------------- all trials succeeded ---------------------+

Every change of gate starts a new `generation`. An admission carries the generation it was given in, and an
outcome of another generation is a straggler that changes nothing. Trial permits are leased: one whose worker
died expires, so that a lost outcome cannot keep the gate half open forever. Functions that change nothing
return the very object they were given, so that the caller can skip the write.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from holdfast.core.breaker_policy import BreakerPolicy as BreakerPolicy
from holdfast.core.breaker_policy import Mode as Mode

TRIAL_WAIT_MS = 60_000
"""A job that is to be a trial may have to wait for a worker for so long."""


class Gate(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True)
class BreakerState:
    """All that the row holds. Times are milliseconds.

    `window` has a '1' for each failure and a '0' for each success, newest last; `times` says when each of them came
    in, and is kept only for a window of time. `open_until` is None while the gate is open until a probe or a person
    closes it. `permits` are (permit id, expires at). `down_since` is when the present outage began: the first opening
    since the gate was last closed.
    """

    gate: Gate = Gate.CLOSED
    generation: int = 0
    window: str = ""
    opened_at: int | None = None
    open_until: int | None = None
    openings: int = 0
    permits: tuple[tuple[str, int], ...] = ()
    trial_successes: int = 0
    forced: bool = False
    reason: str = ""
    times: tuple[int, ...] = ()
    down_since: int | None = None


@dataclass(frozen=True, slots=True)
class Admitted:
    """The call may be made; report its outcome under this generation."""

    generation: int
    trial: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """The call may not be made. `retry_at` is None when only a probe or a person can tell."""

    reason: str
    retry_at: int | None


Admission = Admitted | Refused


def admit(state: BreakerState, policy: BreakerPolicy, now: int, permit_id: str) -> tuple[BreakerState, Admission]:
    """Ask to make one call. Asking again under a permit that is still held grants nothing new."""
    if state.gate is Gate.CLOSED:
        return state, Admitted(state.generation, trial=False)
    state = tick(state, policy, now)
    if state.gate is Gate.OPEN:
        why = f"its breaker is open ({state.reason})" if state.reason else "its breaker is open"
        return state, Refused(why, _half_opens_at(state, policy))
    if any(held == permit_id for held, _ in state.permits):
        return state, Admitted(state.generation, trial=True)
    if trial_room(state, policy, now) == 0:
        soonest = min(expires_at for _, expires_at in state.permits)
        return state, Refused("its breaker is half open and all trial calls are under way", soonest)
    permit = (permit_id, now + _ms(policy.trial_lease_s))
    return replace(state, permits=(*state.permits, permit)), Admitted(state.generation, trial=True)


def tick(state: BreakerState, policy: BreakerPolicy, now: int) -> BreakerState:
    """Let time pass: half-open once the cooldown is over, and free the permits that nobody reported on."""
    if state.gate is Gate.OPEN:
        due_at = _half_opens_at(state, policy)
        if due_at is None or now < due_at:
            return state
        return replace(state, gate=Gate.HALF_OPEN, generation=state.generation + 1, trial_successes=0)
    live = tuple(permit for permit in state.permits if permit[1] > now)
    return state if len(live) == len(state.permits) else replace(state, permits=live)


def record(
    state: BreakerState, policy: BreakerPolicy, now: int, generation: int, permit_id: str, ok: bool
) -> BreakerState:
    """Report a call's outcome. Only provider faults are failures; for the caller's own, use `release`."""
    if generation != state.generation or state.gate is Gate.OPEN:
        return state
    if state.gate is Gate.CLOSED:
        return _counted(state, policy, now, ok)
    if not ok:  # whether or not its permit has expired meanwhile: the provider is not well
        return _opened(state, policy, now, "a trial call failed")
    released = release(state, generation, permit_id)
    if released is state:
        return state  # its permit expired or was reported on: another may hold its place, so it cannot count
    successes = state.trial_successes + 1
    return _closed(state) if successes >= policy.trials else replace(released, trial_successes=successes)


def release(state: BreakerState, generation: int, permit_id: str) -> BreakerState:
    """Hand a trial permit back without a verdict: the call said nothing about the provider's health."""
    if generation != state.generation:
        return state
    others = tuple(permit for permit in state.permits if permit[0] != permit_id)
    return state if len(others) == len(state.permits) else replace(state, permits=others)


def awaits_probe(state: BreakerState, policy: BreakerPolicy, now: int) -> bool:
    """Whether a health probe may judge the gate: in hold mode one that is open, in trials mode one that could be tried
    for a while and has no trial under way. What a person forced open, only a person closes."""
    if policy.mode == "hold":
        return state.gate is Gate.OPEN and not state.forced
    could_be_tried_at = (state.open_until or 0) + TRIAL_WAIT_MS
    return state.gate is Gate.HALF_OPEN and not state.permits and now >= could_be_tried_at


def probe(state: BreakerState, policy: BreakerPolicy, now: int, ok: bool) -> BreakerState:
    """Report a health probe; `policy.trials` good ones in a row close the gate. In trials mode it stands for a trial.

    The caller sets the pace of the probes.
    """
    if not awaits_probe(state, policy, now):
        return state
    if not ok:
        if policy.mode == "trials":
            return _opened(state, policy, now, "a health probe failed")
        return replace(state, trial_successes=0) if state.trial_successes else state
    successes = state.trial_successes + 1
    return _closed(state) if successes >= policy.trials else replace(state, trial_successes=successes)


def force_open(state: BreakerState, now: int, reason: str) -> BreakerState:
    """Open until `force_close`, whatever the mode: a person's word, or a quota that waiting cannot fix."""
    if state.forced:
        return state if reason == state.reason else replace(state, reason=reason)
    return replace(
        state,
        gate=Gate.OPEN,
        generation=state.generation + 1,
        opened_at=now,
        open_until=None,
        permits=(),
        trial_successes=0,
        forced=True,
        reason=reason,
        down_since=now if state.down_since is None else state.down_since,
    )


def force_close(state: BreakerState, now: int) -> BreakerState:
    """Close with an empty window, forgetting earlier openings. Calls under way become stragglers."""
    return _closed(state)


def trial_room(state: BreakerState, policy: BreakerPolicy, now: int) -> int:
    """How many more trial calls may start now. 0 also when closed: then no call needs to be a trial. There is room
    while none is under way: where the policy asks for fewer than have succeeded by now, one more closes the gate."""
    state = tick(state, policy, now)
    if state.gate is not Gate.HALF_OPEN:
        return 0
    return max(0 if state.permits else 1, policy.trials - state.trial_successes - len(state.permits))


def to_row(state: BreakerState) -> dict[str, Any]:
    """The state as plain values that JSON and SQL can hold."""
    return {
        "gate": state.gate.value,
        "generation": state.generation,
        "window": state.window,
        "opened_at": state.opened_at,
        "open_until": state.open_until,
        "openings": state.openings,
        "permits": [[permit_id, expires_at] for permit_id, expires_at in state.permits],
        "trial_successes": state.trial_successes,
        "forced": state.forced,
        "reason": state.reason,
        "times": list(state.times),
        "down_since": state.down_since,
    }


def from_row(row: Mapping[str, Any]) -> BreakerState:
    """The state that `to_row` wrote, also that of an earlier release; columns it does not know are left alone."""
    return BreakerState(
        gate=Gate(row["gate"]),
        generation=row["generation"],
        window=row["window"],
        opened_at=row["opened_at"],
        open_until=row["open_until"],
        openings=row["openings"],
        permits=tuple((permit_id, expires_at) for permit_id, expires_at in row["permits"]),
        trial_successes=row["trial_successes"],
        forced=bool(row["forced"]),
        reason=row["reason"],
        times=tuple(row.get("times", ())),
        down_since=row.get("down_since"),
    )


def _counted(state: BreakerState, policy: BreakerPolicy, now: int, ok: bool) -> BreakerState:
    window, times = _window_with(state, policy, now, ok)
    if (window, times) == (state.window, state.times):  # a full window of successes: nothing to write
        return state
    counted = replace(state, window=window, times=times)
    reason = _reason_to_open(window, policy)
    return counted if reason is None else _opened(counted, policy, now, reason)


def _window_with(state: BreakerState, policy: BreakerPolicy, now: int, ok: bool) -> tuple[str, tuple[int, ...]]:
    """The window and its times with one more outcome, without those that are too many or too old."""
    window = (state.window + ("0" if ok else "1"))[-policy.window :]
    if policy.window_s is None:
        return window, ()
    # Outcomes from before times were kept count as fresh: they leave the window a little late, once.
    known = (now,) * (len(state.window) - len(state.times)) + state.times
    times = (*known, now)[-len(window) :]
    oldest = now - _ms(policy.window_s)
    fresh = sum(at > oldest for at in times) or 1
    return window[-fresh:], times[-fresh:]


def _reason_to_open(window: str, policy: BreakerPolicy) -> str | None:
    in_a_row = len(window) - len(window.rstrip("1"))
    if policy.failures_in_a_row is not None and in_a_row >= policy.failures_in_a_row:
        return f"{in_a_row} calls in a row failed"
    failed, calls = window.count("1"), len(window)
    rate = failed / calls  # a division rounds correctly, so 11/20 equals a threshold written as 0.55
    over = rate >= policy.open_above if policy.inclusive else rate > policy.open_above
    return f"{failed} of the last {calls} calls failed" if over and calls >= policy.calls_min else None


def _opened(state: BreakerState, policy: BreakerPolicy, now: int, reason: str) -> BreakerState:
    openings = state.openings + 1
    return replace(
        state,
        gate=Gate.OPEN,
        generation=state.generation + 1,
        opened_at=now,
        open_until=None if policy.mode == "hold" else now + _cooldown_ms(policy, openings),
        openings=openings,
        permits=(),
        trial_successes=0,
        reason=reason,
        down_since=now if state.down_since is None else state.down_since,
    )


def _closed(state: BreakerState) -> BreakerState:
    return BreakerState(generation=state.generation + 1)


def _half_opens_at(state: BreakerState, policy: BreakerPolicy) -> int | None:
    if state.forced or policy.mode == "hold":
        return None
    if state.open_until is not None:
        return state.open_until
    # Opened in hold mode, then deployed with trials: without this it would stay open forever.
    return (state.opened_at or 0) + _cooldown_ms(policy, state.openings)


def _cooldown_ms(policy: BreakerPolicy, openings: int) -> int:
    try:
        grown_s = policy.cooldown_s * policy.cooldown_growth ** max(openings - 1, 0)
    except OverflowError:  # a long outage: the maximum was reached long before
        grown_s = math.inf
    return _ms(min(grown_s, max(policy.cooldown_s, policy.cooldown_max_s)))


def _ms(seconds: float) -> int:
    return round(seconds * 1_000)

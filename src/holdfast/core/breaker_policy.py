"""When a breaker opens and how it closes again: what an app declares, and what is wrong with it, in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from holdfast.core.given import BadValue, count_problem, flag_problem, is_number, seconds_problem

Mode = Literal["trials", "hold"]


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """When a provider's breaker opens and how it closes again.

    It opens when the share of failures in the last `window` calls is over `open_above` (`inclusive`: or equal
    to it), judged only from `min_calls` outcomes on; and, whatever the window holds, when `failures_in_a_row` calls
    have failed one after the other, so that a provider with little traffic is seen to be down too (None: never by
    that). With `window_s` outcomes older than that leave the window; each outcome is then written with its time.
    The cooldown is the same every time unless `cooldown_growth` is more than 1: then each opening in a row
    multiplies it, up to `cooldown_max_s`. In mode "hold" no trial is made: `trials` good probes in a row close it.
    """

    window: int = 20
    open_above: float = 0.5
    inclusive: bool = False
    cooldown_s: float = 30.0
    trials: int = 3
    mode: Mode = "trials"
    cooldown_max_s: float = 300.0
    trial_lease_s: float = 120.0
    min_calls: int | None = None
    failures_in_a_row: int | None = 5
    window_s: float | None = None
    cooldown_growth: float = 1.0

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem is not None:
            raise BadValue(problem)

    @property
    def calls_min(self) -> int:
        """How many outcomes the window must hold before they are judged."""
        return self.window if self.min_calls is None else self.min_calls


OPTIONAL = ("min_calls", "failures_in_a_row", "window_s")
COUNTS = ("window", "trials", "min_calls", "failures_in_a_row")
TIMES = ("cooldown_s", "cooldown_max_s", "trial_lease_s", "window_s")
WINDOW_MAX = 10_000


def _problem(policy: BreakerPolicy) -> str | None:
    return _wrong_type(policy) or _wrong_count(policy) or _wrong_time(policy) or _wrong_share(policy)


def _wrong_type(policy: BreakerPolicy) -> str | None:
    for name in (*COUNTS, *TIMES, "open_above", "cooldown_growth"):
        value = getattr(policy, name)
        if not (is_number(value) or (name in OPTIONAL and value is None)):
            return f"A breaker needs a number for {name}, not {value!r}."
    if problem := flag_problem(policy.inclusive):
        return f"A breaker's inclusive of {policy.inclusive!r} {problem}."
    return None


def _wrong_count(policy: BreakerPolicy) -> str | None:
    for name in COUNTS:
        value = getattr(policy, name)
        if value is not None and (problem := count_problem(value)):
            return f"A breaker's {name} of {value!r} {problem}."
    if policy.window > WINDOW_MAX:
        return f"A breaker needs a window of at most {WINDOW_MAX} calls, not {policy.window}."
    if not 1 <= policy.calls_min <= policy.window:
        return f"A breaker needs min_calls from 1 to its window of {policy.window}, not {policy.min_calls}."
    return None


def _wrong_time(policy: BreakerPolicy) -> str | None:
    for name in TIMES:
        value = getattr(policy, name)
        if value is not None and (problem := seconds_problem(value, above_zero=True)):
            return f"A breaker's {name} of {value!r} {problem}."
    if policy.cooldown_growth < 1:
        return f"A breaker needs a cooldown_growth of 1 or more, not {policy.cooldown_growth}."
    return None


def _wrong_share(policy: BreakerPolicy) -> str | None:
    if policy.mode not in get_args(Mode):
        return f"A breaker's mode is trials or hold, not '{policy.mode}'."
    if policy.inclusive and not 0 < policy.open_above <= 1:
        return f"An inclusive breaker opens at a share over 0 and up to 1, not {policy.open_above}."
    if not policy.inclusive and not 0 <= policy.open_above < 1:
        return f"A breaker opens above a share from 0 up to but not including 1, not {policy.open_above}."
    return None

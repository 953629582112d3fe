"""How long to wait before a failed stage is tried again.

    full       random(0, min(cap, base * multiplier**(failures-1)))
    additive   min(cap, base * multiplier**(failures-1) + random(0, jitter_max))
    none       min(cap, base * multiplier**(failures-1))

The provider's Retry-After can only lengthen the wait, and is waited for in full unless the policy has a ceiling,
which bounds both. Luck is an argument: the same draw gives the same delay forever.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from holdfast.core.given import BadValue, count_problem, is_number, seconds_problem

CAP_S = 60.0
Jitter = Literal["full", "additive", "none"]


@dataclass(frozen=True, slots=True)
class Retry:
    """A retry policy. `attempts` counts all calls, the first included. No backoff is longer than `cap_s`. `ceiling_s`
    bounds every wait, one that the provider asked for too; None: what the provider asks stands."""

    attempts: int = 5
    base_s: float = 1.0
    multiplier: float = 2.0
    cap_s: float = CAP_S
    jitter: Jitter = "full"
    jitter_max_s: float = 0.0
    ceiling_s: float | None = None

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem is not None:
            raise BadValue(problem)

    def delay_ms(self, failures: int, draw: float, retry_after_ms: int | None = None) -> int:
        """Milliseconds to wait after the `failures`-th failure of this stage (the first is 1).

        `draw` is a number in [0, 1) from the caller's dice.
        """
        assert failures >= 1 and 0.0 <= draw < 1.0
        backoff_ms = round(_backoff_s(self, failures, draw) * 1_000)
        return self.cut_ms(max(backoff_ms, retry_after_ms or 0))

    def cut_ms(self, delay_ms: int) -> int:
        """The delay, cut to the ceiling if there is one."""
        return delay_ms if self.ceiling_s is None else min(delay_ms, round(self.ceiling_s * 1_000))


def _backoff_s(policy: Retry, failures: int, draw: float) -> float:
    exponential_s = _exponential_s(policy, failures)
    if policy.jitter == "additive":
        return min(policy.cap_s, exponential_s + draw * policy.jitter_max_s)
    capped_s = min(policy.cap_s, exponential_s)
    return draw * capped_s if policy.jitter == "full" else capped_s


def _exponential_s(policy: Retry, failures: int) -> float:
    if policy.base_s == 0.0:
        return 0.0
    try:
        return policy.base_s * policy.multiplier ** (failures - 1)
    except OverflowError:
        # A float power overflows at about a thousand failures; the cap is reached long before.
        return math.inf


def _problem(policy: Retry) -> str | None:
    for name in ("attempts", "base_s", "multiplier", "cap_s", "jitter_max_s", "ceiling_s"):
        value = getattr(policy, name)
        if not (is_number(value) or (name == "ceiling_s" and value is None)):
            return f"A retry policy needs a number for {name}, not {value!r}."
    if problem := count_problem(policy.attempts):
        return f"A retry policy's attempts of {policy.attempts!r}, with the first call, {problem}."
    for name in ("base_s", "cap_s", "jitter_max_s", "ceiling_s"):
        value = getattr(policy, name)
        if value is not None and (problem := seconds_problem(value)):
            return f"A retry policy's {name} of {value!r} {problem}."
    if policy.base_s > policy.cap_s == CAP_S:  # a cap of one's own may be below what the base is by itself
        return f"A retry policy's base_s of {policy.base_s:g} is above its cap_s of {policy.cap_s:g}; give cap_s too."
    if policy.multiplier < 1:
        return f"A retry policy needs a multiplier of 1 or more, not {policy.multiplier}."
    if policy.jitter not in get_args(Jitter):
        return f"A retry policy's jitter is one of full, additive, none, not '{policy.jitter}'."
    if policy.jitter_max_s and policy.jitter != "additive":
        return f"A retry policy's jitter_max_s needs additive jitter; with '{policy.jitter}' it does nothing."
    return None

"""Deadlines in milliseconds. A job without one (`None`) has all the time there is.

The instant of the deadline itself still counts as in time; one millisecond later is late.
"""

from __future__ import annotations


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

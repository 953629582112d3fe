"""Deadlines: what is left, what a call may take, what is not worth waiting for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.job import budget_ms, clip_ms, passes

instants = st.integers(0, 10**13)


@pytest.mark.spec("K14")
@pytest.mark.parametrize(
    ("deadline_at", "now", "left"),
    [(None, 5, None), (1_000, 400, 600), (1_000, 1_000, 0), (1_000, 1_500, 0), (0, 0, 0)],
)
def test_the_budget_is_what_is_left_and_never_negative(deadline_at: int | None, now: int, left: int | None) -> None:
    assert budget_ms(deadline_at, now) == left


@pytest.mark.spec("K14")
@pytest.mark.parametrize(
    ("timeout_ms", "deadline_at", "now", "clipped"),
    [(500, None, 9_999, 500), (500, 1_000, 0, 500), (500, 1_000, 700, 300), (500, 1_000, 2_000, 0)],
)
def test_a_call_never_outlives_the_deadline(timeout_ms: int, deadline_at: int | None, now: int, clipped: int) -> None:
    assert clip_ms(timeout_ms, deadline_at, now) == clipped


@pytest.mark.spec("K14")
@given(st.integers(0, 10**9), instants, instants)
def test_a_clipped_call_ends_in_time_or_does_not_start(timeout_ms: int, deadline_at: int, now: int) -> None:
    clipped = clip_ms(timeout_ms, deadline_at, now)
    assert 0 <= clipped <= timeout_ms
    assert clipped == 0 or not passes(now + clipped, deadline_at)


@pytest.mark.spec("K14")
def test_the_deadline_itself_is_in_time_and_a_millisecond_later_is_not() -> None:
    assert not passes(1_000, 1_000)
    assert passes(1_001, 1_000)
    assert not passes(10**15, None)

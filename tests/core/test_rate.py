"""Calls a minute: no sixty seconds see more than the limit, whenever they begin; a burst is a choice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.rate import EXACT_MAX, Usage, room, spend

MINUTE_MS = 60_000


def play(per_minute: int, burst: int | None, gaps_ms: list[int]) -> list[int]:
    """When calls go through, if one is asked for after each gap."""
    usage, now, calls = Usage(), 0, []
    for gap_ms in gaps_ms:
        now += gap_ms
        free = room(usage, per_minute, burst, now)
        after = spend(usage, per_minute, burst, now)
        assert (free > 0) == isinstance(after, Usage)
        if isinstance(after, Usage):
            usage = after
            calls.append(now)
        else:
            assert after > now and isinstance(spend(usage, per_minute, burst, after), Usage), "its word is kept"
    return calls


def most_in_a_minute(calls: list[int]) -> int:
    return max((sum(start <= at < start + MINUTE_MS for at in calls) for start in calls), default=0)


gaps = st.lists(st.integers(0, 20_000) | st.integers(0, 40), max_size=200)


@pytest.mark.spec("K18")
@given(st.integers(1, 12), gaps)
def test_no_minute_sees_more_calls_than_the_limit(per_minute: int, gaps_ms: list[int]) -> None:
    assert most_in_a_minute(play(per_minute, None, gaps_ms)) <= per_minute


@pytest.mark.spec("K18")
@given(st.integers(1, 12), st.integers(100, 900), st.lists(st.integers(0, 1_000), min_size=1))
def test_nor_does_a_minute_of_the_providers_where_each_call_takes_up_to_a_second_to_come(
    per_minute: int, every_ms: int, ways_ms: list[int]
) -> None:
    calls = play(per_minute, None, [every_ms] * (130_000 // every_ms))
    arrivals = [at + ways_ms[number % len(ways_ms)] for number, at in enumerate(calls)]
    assert most_in_a_minute(arrivals) <= per_minute


@pytest.mark.spec("K18")
@given(st.integers(EXACT_MAX + 1, 90), st.lists(st.integers(0, 1_500), max_size=300))
def test_nor_where_the_calls_of_a_second_are_remembered_together(per_minute: int, gaps_ms: list[int]) -> None:
    assert most_in_a_minute(play(per_minute, None, gaps_ms)) <= per_minute


@pytest.mark.spec("K18")
def test_the_limit_is_used_in_full_and_comes_back_as_its_calls_leave_the_minute() -> None:
    calls = play(6, None, [0] * 10 + [10_000] * 12)
    assert calls == [0] * 6 + [70_000, 80_000, 90_000, 100_000, 110_000, 120_000]


@pytest.mark.spec("K18")
@pytest.mark.parametrize("per_minute", [6, 60, 61, 6_000])
def test_what_is_remembered_stays_small_however_high_the_limit(per_minute: int) -> None:
    usage = Usage()
    for now in range(0, 180_000, 7):
        after = spend(usage, per_minute, None, now)
        usage = after if isinstance(after, Usage) else usage
        assert len(usage.recent) <= 62


@pytest.mark.spec("K18")
def test_clocks_that_go_back_forget_nothing() -> None:
    usage = spend(Usage(), 2, None, 10_000)
    assert isinstance(usage, Usage)
    usage = spend(usage, 2, None, 4_000)
    assert isinstance(usage, Usage) and usage.recent == ((10_000, 2),)
    assert spend(usage, 2, None, 65_000) == 71_000


@pytest.mark.spec("K18")
@given(st.integers(1, 30), st.integers(1, 30), gaps)
def test_a_burst_may_be_exceeded_by_no_more_than_the_minutes_refill(
    per_minute: int, burst: int, gaps_ms: list[int]
) -> None:
    assert most_in_a_minute(play(per_minute, burst, gaps_ms)) <= per_minute + burst


@pytest.mark.spec("K18")
def test_a_bucket_starts_full_and_saves_up_no_more_than_its_burst() -> None:
    calls = play(6, 6, [0] * 8 + [3_600_000] + [0] * 9)
    assert calls == [0] * 6 + [3_600_000] * 6

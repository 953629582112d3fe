"""The breaker over time: low traffic, a window of time, how long an outage lasts and how long it stays open."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.core.test_breaker import GRADING, calls, half_open, opened

from holdfast.core.breaker import Admitted, BreakerPolicy, BreakerState, Gate, admit, force_close, force_open, record


@pytest.mark.spec("K9", "000.28")
def test_a_provider_with_little_traffic_is_seen_to_be_down_by_five_failures_in_a_row() -> None:
    assert calls(BreakerPolicy(), "01111").gate is Gate.CLOSED
    state = calls(BreakerPolicy(), "011111")
    assert state.gate is Gate.OPEN and state.reason == "5 calls in a row failed"
    assert calls(BreakerPolicy(failures_in_a_row=None), "1" * 19).gate is Gate.CLOSED


@pytest.mark.spec("K9", "000.28")
def test_outcomes_older_than_the_window_of_time_do_not_count() -> None:
    policy = BreakerPolicy(window=4, min_calls=3, window_s=120, failures_in_a_row=None)
    state = BreakerState()
    for at_s, ok in ((0, False), (60, False), (121, True)):
        state = record(state, policy, at_s * 1_000, state.generation, "", ok)
    assert (state.gate, state.window, state.times) == (Gate.CLOSED, "10", (60_000, 121_000))
    assert record(state, policy, 122_000, state.generation, "", ok=False).gate is Gate.OPEN
    later = record(state, policy, 500_000, state.generation, "", ok=False)
    assert (later.gate, later.window, later.times) == (Gate.CLOSED, "1", (500_000,))


@pytest.mark.spec("K9", "000.28")
def test_a_row_of_failures_counts_only_within_the_window_of_time() -> None:
    policy = BreakerPolicy(failures_in_a_row=3, window_s=60)
    state = BreakerState()
    for at_s in (0, 50, 100, 150, 200, 250):
        state = record(state, policy, at_s * 1_000, state.generation, "", ok=False)
        assert state.gate is Gate.CLOSED
    assert record(state, policy, 251_000, state.generation, "", ok=False).gate is Gate.OPEN


@pytest.mark.spec("K9")
def test_a_window_from_before_times_were_kept_is_taken_over() -> None:
    policy = BreakerPolicy(window=4, window_s=60, failures_in_a_row=None)
    state = record(BreakerState(window="110"), policy, 5_000, 0, "", ok=False)
    assert state.gate is Gate.OPEN and state.times == (5_000,) * 4


@pytest.mark.spec("K9", "K17")
def test_an_outage_began_with_its_first_opening_and_ends_with_the_close() -> None:
    state = opened(now=1_000)
    assert state.down_since == 1_000
    state, admission = admit(state, GRADING, 31_000, "t")
    assert isinstance(admission, Admitted) and state.down_since == 1_000
    state = record(state, GRADING, 32_000, admission.generation, "t", ok=False)
    assert (state.opened_at, state.down_since) == (32_000, 1_000)
    assert force_open(state, 40_000, "x").down_since == 1_000
    assert force_open(BreakerState(), 40_000, "x").down_since == 40_000
    assert force_close(state, 41_000).down_since is None


def cooldowns(policy: BreakerPolicy, count: int) -> list[int]:
    """How long it stays open each time, while every trial fails."""
    state, found = opened(policy), []
    for _ in range(count):
        assert state.opened_at is not None and state.open_until is not None
        found.append(state.open_until - state.opened_at)
        state, admission = admit(state, policy, state.open_until, "t")
        assert isinstance(admission, Admitted)
        state = record(state, policy, state.open_until or 0, admission.generation, "t", ok=False)
        assert state.gate is Gate.OPEN and state.permits == () and state.generation > admission.generation
        assert state.reason == "a trial call failed"
    return found


@pytest.mark.spec("K9", "G7", "000.28")
def test_one_failed_trial_opens_it_again_for_the_same_thirty_seconds() -> None:
    assert cooldowns(GRADING, 5) == [30_000] * 5


@pytest.mark.spec("K9", "000.28")
def test_a_cooldown_grows_only_where_a_setting_says_so() -> None:
    doubling = replace(GRADING, cooldown_growth=2.0)
    assert cooldowns(doubling, 6) == [30_000, 60_000, 120_000, 240_000, 300_000, 300_000]


@pytest.mark.spec("K9")
def test_a_cooldown_over_the_maximum_does_not_shrink_and_a_long_outage_does_not_overflow() -> None:
    slow = BreakerPolicy(cooldown_s=600, failures_in_a_row=None)
    assert opened(slow).open_until == 600_000
    doubling = replace(GRADING, cooldown_growth=2.0)
    worn = replace(half_open()[0], openings=10**6)
    assert record(worn, doubling, 0, worn.generation, "x", ok=False).open_until == 300_000

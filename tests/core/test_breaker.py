"""The breaker: its rules one by one, then a machine that plays workers against a plain model of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.breaker import (
    TRIAL_WAIT_MS,
    Admitted,
    BreakerPolicy,
    BreakerState,
    Gate,
    Refused,
    admit,
    force_close,
    force_open,
    probe,
    record,
    release,
    tick,
    trial_room,
)

GRADING = BreakerPolicy(failures_in_a_row=None)
CONVERSION = BreakerPolicy(open_above=0.5, inclusive=True, mode="hold", failures_in_a_row=None)


def calls(policy: BreakerPolicy, outcomes: str, now: int = 0) -> BreakerState:
    """A fresh breaker after these outcomes ('1' failed), one call after the other."""
    state = BreakerState()
    for outcome in outcomes:
        state = record(state, policy, now, state.generation, "", ok=outcome == "0")
    return state


def opened(policy: BreakerPolicy = GRADING, now: int = 0) -> BreakerState:
    state = calls(policy, "1" * policy.window, now)
    assert state.gate is Gate.OPEN
    return state


def half_open(policy: BreakerPolicy = GRADING, *permits: str) -> tuple[BreakerState, int]:
    state = opened(policy)
    now = state.open_until or 0
    for permit in permits:
        state, granted = admit(state, policy, now, permit)
        assert isinstance(granted, Admitted) and granted.trial
    return tick(state, policy, now), now


@pytest.mark.spec("K9", "G7", "000.27")
def test_grading_opens_over_half_of_twenty_and_not_at_half() -> None:
    assert calls(GRADING, "10" * 10).gate is Gate.CLOSED
    assert calls(GRADING, "10" * 9 + "11").gate is Gate.OPEN


@pytest.mark.spec("K9", "C4", "001.16", "001.35")
def test_conversion_opens_at_half_of_twenty() -> None:
    assert calls(CONVERSION, "10" * 9 + "00").gate is Gate.CLOSED
    assert calls(CONVERSION, "10" * 10).gate is Gate.OPEN


@pytest.mark.spec("K9")
def test_it_judges_only_a_full_window_unless_told_otherwise() -> None:
    assert calls(GRADING, "1" * 19).gate is Gate.CLOSED
    assert calls(GRADING, "1" * 19 + "0").gate is Gate.OPEN
    hasty = BreakerPolicy(min_calls=4, failures_in_a_row=None)
    assert calls(hasty, "111").gate is Gate.CLOSED
    assert calls(hasty, "1111").gate is Gate.OPEN


@pytest.mark.spec("K9")
@given(
    st.text("01", max_size=60),
    st.integers(1, 12),
    st.sampled_from([(1, 4), (1, 2), (11, 20), (2, 3), (3, 10)]),
    st.booleans(),
    st.none() | st.integers(1, 9),
    st.data(),
)
def test_it_opens_exactly_when_the_rate_or_a_row_of_failures_says(
    outcomes: str, window: int, share: tuple[int, int], inclusive: bool, row: int | None, data: st.DataObject
) -> None:
    top, bottom = share
    min_calls = data.draw(st.integers(1, window))
    policy = BreakerPolicy(
        window=window, open_above=top / bottom, inclusive=inclusive, min_calls=min_calls, failures_in_a_row=row
    )
    expected = Gate.CLOSED
    for end in range(1, len(outcomes) + 1):
        seen = outcomes[max(0, end - window) : end]
        failed, allowed = seen.count("1") * bottom, top * len(seen)  # in whole numbers: no rounding
        by_rate = end >= min_calls and (failed > allowed or (inclusive and failed == allowed))
        by_row = row is not None and seen.endswith("1" * row)
        if by_rate or by_row:
            expected = Gate.OPEN
            break
    assert calls(policy, outcomes).gate is expected


@pytest.mark.spec("K9")
def test_while_closed_every_call_is_admitted_and_nothing_is_written() -> None:
    state = calls(GRADING, "0110")
    after, admission = admit(state, GRADING, 5, "p")
    assert after is state and admission == Admitted(state.generation, trial=False)
    assert trial_room(state, GRADING, 5) == 0
    healthy = calls(GRADING, "0" * 20)
    assert record(healthy, GRADING, 5, healthy.generation, "p", ok=True) is healthy


@pytest.mark.spec("K9", "G7")
def test_while_open_nothing_is_admitted_until_the_cooldown_is_over() -> None:
    state = opened(now=1_000)
    assert (state.opened_at, state.open_until) == (1_000, 31_000)
    for now in (1_000, 30_999):
        after, admission = admit(state, GRADING, now, "p")
        assert after is state and trial_room(state, GRADING, now) == 0
        assert admission == Refused("its breaker is open (20 of the last 20 calls failed)", 31_000)
    after, admission = admit(state, GRADING, 31_000, "p")
    assert after.gate is Gate.HALF_OPEN and after.generation == state.generation + 1
    assert admission == Admitted(after.generation, trial=True)
    assert trial_room(state, GRADING, 31_000) == 3
    assert tick(state, GRADING, 30_999) is state
    assert tick(state, GRADING, 31_000).gate is Gate.HALF_OPEN


@pytest.mark.spec("K9", "G7")
def test_half_open_admits_three_trials_and_no_fourth() -> None:
    state, now = half_open(GRADING, "a", "b", "c")
    after, admission = admit(state, GRADING, now + 5, "d")
    assert after is state
    assert admission == Refused("its breaker is half open and all trial calls are under way", now + 120_000)
    state = record(state, GRADING, now, state.generation, "a", ok=True)
    assert isinstance(admit(state, GRADING, now, "d")[1], Refused)  # a trial that succeeded keeps its place
    assert trial_room(state, GRADING, now) == 0


@pytest.mark.spec("K9")
def test_a_refused_trial_may_ask_again_when_the_first_permit_expires() -> None:
    state, now = half_open(GRADING, "a", "b")
    state, _ = admit(state, GRADING, now + 50, "c")
    assert admit(state, GRADING, now + 60, "d")[1] == Refused(
        "its breaker is half open and all trial calls are under way", now + 120_000
    )


@pytest.mark.spec("K9")
def test_asking_again_under_a_held_permit_grants_nothing_new() -> None:
    state, now = half_open(GRADING, "a")
    after, admission = admit(state, GRADING, now + 1, "a")
    assert after is state and admission == Admitted(state.generation, trial=True)
    assert trial_room(after, GRADING, now) == 2


@pytest.mark.spec("K9", "G7", "000.29")
def test_three_good_trials_close_it_with_an_empty_window() -> None:
    state, now = half_open(GRADING, "a", "b", "c")
    generation = state.generation
    for permit in ("a", "b"):
        state = record(state, GRADING, now, generation, permit, ok=True)
        assert state.gate is Gate.HALF_OPEN
    state = record(state, GRADING, now, generation, "c", ok=True)
    assert state == BreakerState(generation=generation + 1)


@pytest.mark.spec("K9")
def test_after_a_full_close_the_next_cooldown_is_short_again() -> None:
    state, now = half_open(GRADING, "a", "b", "c")
    for permit in ("a", "b", "c"):
        state = record(state, GRADING, now, state.generation, permit, ok=True)
    for _ in range(20):
        state = record(state, GRADING, now, state.generation, "", ok=False)
    assert state.open_until == now + 30_000


@pytest.mark.spec("K9")
def test_a_permit_whose_outcome_was_lost_expires() -> None:
    state, now = half_open(GRADING, "a", "b", "c")
    assert tick(state, GRADING, now + 119_999) is state
    freed = tick(state, GRADING, now + 120_000)
    assert freed.permits == () and freed.gate is Gate.HALF_OPEN
    assert trial_room(state, GRADING, now + 120_000) == 3
    after, admission = admit(state, GRADING, now + 120_000, "d")
    assert isinstance(admission, Admitted) and after.permits == (("d", now + 240_000),)


@pytest.mark.spec("K9")
def test_a_success_after_its_permit_expired_does_not_count_but_a_failure_does() -> None:
    state, now = half_open(GRADING, "a")
    freed = tick(state, GRADING, now + 120_000)
    assert record(freed, GRADING, now, freed.generation, "a", ok=True) is freed
    assert record(freed, GRADING, now, freed.generation, "a", ok=False).gate is Gate.OPEN


@pytest.mark.spec("K9")
def test_trials_of_an_earlier_half_open_gate_do_not_count_in_the_next() -> None:
    state, now = half_open(GRADING, "a", "b")
    state = record(state, GRADING, now, state.generation, "a", ok=True)
    state = record(state, GRADING, now, state.generation, "b", ok=False)
    assert state.trial_successes == 0
    assert force_open(replace(half_open()[0], trial_successes=2), 1, "x").trial_successes == 0


@pytest.mark.spec("K9")
def test_a_new_policy_does_not_move_the_end_of_a_cooldown_under_way() -> None:
    state = opened(GRADING)
    assert admit(state, BreakerPolicy(cooldown_s=5), 29_999, "p")[1] == Refused(
        "its breaker is open (20 of the last 20 calls failed)", 30_000
    )


@pytest.mark.spec("K9")
def test_an_outcome_reported_twice_counts_once() -> None:
    state, now = half_open(GRADING, "a")
    once = record(state, GRADING, now, state.generation, "a", ok=True)
    assert once.trial_successes == 1
    assert record(once, GRADING, now, once.generation, "a", ok=True) is once


@pytest.mark.spec("K9")
def test_a_neutral_outcome_hands_the_permit_back_without_a_verdict() -> None:
    state, now = half_open(GRADING, "a", "b", "c")
    back = release(state, state.generation, "b")
    assert [held for held, _ in back.permits] == ["a", "c"]
    assert back.gate is Gate.HALF_OPEN and back.trial_successes == 0
    assert trial_room(back, GRADING, now) == 1
    assert release(state, state.generation - 1, "b") is state
    assert release(state, state.generation, "unknown") is state


@pytest.mark.spec("K9")
@given(st.integers(-3, 3).filter(bool), st.booleans(), st.sampled_from(["a", "z"]))
def test_a_straggler_of_another_generation_changes_nothing(shift: int, ok: bool, permit: str) -> None:
    for state in (calls(GRADING, "1" * 19), opened(), half_open(GRADING, "a")[0]):
        assert record(state, GRADING, 9, state.generation + shift, permit, ok) is state


@pytest.mark.spec("K9")
def test_an_open_gate_takes_no_outcomes_at_all() -> None:
    state = opened()
    assert record(state, GRADING, 9, state.generation, "a", ok=True) is state
    assert record(state, GRADING, 9, state.generation, "a", ok=False) is state


@pytest.mark.spec("K9", "C4", "001.16", "001.18")
def test_hold_mode_admits_nothing_until_good_probes_close_it() -> None:
    state = opened(CONVERSION)
    assert state.open_until is None
    for now in (0, 30_000, 10**9):
        after, admission = admit(state, CONVERSION, now, "p")
        assert after is state and isinstance(admission, Refused) and admission.retry_at is None
        assert trial_room(state, CONVERSION, now) == 0
    for ok in (True, True, False, True, True):
        state = probe(state, CONVERSION, 5, ok)
        assert state.gate is Gate.OPEN
    generation = state.generation
    assert probe(state, CONVERSION, 5, ok=True) == BreakerState(generation=generation + 1)


@pytest.mark.spec("K9", "C4")
def test_a_probe_says_nothing_in_trials_mode_or_to_a_gate_that_is_not_held() -> None:
    for policy, state in (
        (GRADING, opened()),
        (CONVERSION, calls(CONVERSION, "01")),
        (CONVERSION, force_open(BreakerState(), 1, "maintenance")),
        (CONVERSION, half_open()[0]),
    ):
        assert probe(state, policy, 5, ok=True) is state
        assert probe(state, policy, 5, ok=False) is state
    held = opened(CONVERSION)
    assert probe(held, CONVERSION, 5, ok=False) is held


@pytest.mark.spec("K9")
def test_a_probe_stands_for_a_trial_where_none_came_for_a_minute() -> None:
    state, opened_up_at = half_open(GRADING)
    now = opened_up_at + TRIAL_WAIT_MS
    assert probe(state, GRADING, now - 1, ok=True) is state and probe(state, GRADING, now - 1, ok=False) is state
    for _ in range(GRADING.trials - 1):
        state = probe(state, GRADING, now, ok=True)
        assert state.gate is Gate.HALF_OPEN
    assert probe(state, GRADING, now, ok=True) == BreakerState(generation=state.generation + 1)
    again = probe(state, GRADING, now, ok=False)
    assert (again.gate, again.reason, again.opened_at) == (Gate.OPEN, "a health probe failed", now)
    tried, _ = admit(state, GRADING, now, "a")
    assert probe(tried, GRADING, now, ok=True) is tried and probe(tried, GRADING, now, ok=False) is tried


@pytest.mark.spec("K9")
def test_what_a_person_forced_open_only_a_person_closes() -> None:
    state = force_open(half_open(GRADING, "a")[0], 7, "quota exhausted")
    assert (state.gate, state.forced, state.opened_at, state.open_until) == (Gate.OPEN, True, 7, None)
    assert state.permits == ()
    after, admission = admit(state, GRADING, 10**12, "p")
    assert after is state and admission == Refused("its breaker is open (quota exhausted)", None)
    assert force_open(state, 9, "quota exhausted") is state
    assert force_open(state, 9, "a new contract").reason == "a new contract"
    assert force_close(state, 9) == BreakerState(generation=state.generation + 1)


@pytest.mark.spec("K9")
def test_forcing_makes_stragglers_of_the_calls_under_way() -> None:
    state = calls(GRADING, "1" * 19)
    for forced in (force_open(state, 1, "x"), force_close(state, 1)):
        assert record(forced, GRADING, 2, state.generation, "", ok=False) is forced
    again = force_close(force_open(state, 1, ""), 2)
    assert record(again, GRADING, 3, state.generation, "", ok=False) is again
    assert admit(force_open(state, 1, ""), GRADING, 2, "p")[1] == Refused("its breaker is open", None)


@pytest.mark.spec("K9")
def test_a_breaker_opened_in_hold_mode_is_not_stuck_when_the_mode_changes() -> None:
    state = opened(CONVERSION, now=1_000)
    assert isinstance(admit(state, GRADING, 30_999, "p")[1], Refused)
    assert isinstance(admit(state, GRADING, 31_000, "p")[1], Admitted)
    probed = probe(state, CONVERSION, 5, ok=True)
    assert tick(probed, GRADING, 31_000).trial_successes == 0  # a probe is no trial
    assert probe(opened(GRADING), replace(CONVERSION, trials=1), 5, ok=True).gate is Gate.CLOSED

"""The breaker's values: the row that the store keeps, and the policies that are refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.breaker import Admitted, BreakerPolicy, BreakerState, Gate, admit, from_row, record, to_row


@pytest.mark.spec("K9")
@given(
    st.builds(
        BreakerState,
        gate=st.sampled_from(Gate),
        generation=st.integers(0, 10**9),
        window=st.text("01", max_size=20),
        opened_at=st.none() | st.integers(0, 10**13),
        open_until=st.none() | st.integers(0, 10**13),
        openings=st.integers(0, 99),
        permits=st.lists(st.tuples(st.text(), st.integers(0, 10**13))).map(tuple),
        trial_successes=st.integers(0, 9),
        forced=st.booleans(),
        reason=st.text(),
        times=st.lists(st.integers(0, 10**13)).map(tuple),
        down_since=st.none() | st.integers(0, 10**13),
    )
)
def test_a_row_gives_back_the_state_through_json(state: BreakerState) -> None:
    assert from_row(json.loads(json.dumps(to_row(state)))) == state
    assert from_row({**to_row(state), "forced": int(state.forced), "name": "llm"}) == state


@pytest.mark.spec("K9")
@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"window": 0}, "window"),
        ({"trials": 0}, "trials"),
        ({"min_calls": 0}, "min_calls"),
        ({"min_calls": 21}, "min_calls"),
        ({"cooldown_s": 0}, "cooldown_s"),
        ({"cooldown_max_s": float("nan")}, "cooldown_max_s"),
        ({"trial_lease_s": -1}, "trial_lease_s"),
        ({"window_s": 0}, "window_s"),
        ({"failures_in_a_row": 0}, "failures_in_a_row"),
        ({"cooldown_growth": 0.9}, "cooldown_growth"),
        ({"cooldown_growth": float("nan")}, "cooldown_growth"),
        ({"mode": "maybe"}, "mode"),
        ({"open_above": 1.0}, "share"),
        ({"open_above": -0.1}, "share"),
        ({"open_above": 0.0, "inclusive": True}, "share"),
        ({"open_above": 1.1, "inclusive": True}, "share"),
    ],
)
def test_a_policy_that_cannot_work_is_refused_in_one_sentence(fields: dict[str, object], word: str) -> None:
    with pytest.raises(ValueError, match=word) as refused:
        BreakerPolicy(**fields)  # type: ignore[arg-type]
    assert str(refused.value).endswith(".") and "\n" not in str(refused.value)


@pytest.mark.spec("K9")
def test_the_smallest_and_the_strictest_policies_work() -> None:
    assert BreakerPolicy(open_above=1.0, inclusive=True).calls_min == 20
    touchy = BreakerPolicy(window=1, open_above=0.0, cooldown_s=0.5, trials=1)
    assert record(BreakerState(), touchy, 0, 0, "", ok=False).open_until == 500
    assert BreakerPolicy(cooldown_max_s=0.5, trial_lease_s=0.5, min_calls=20).calls_min == 20


@pytest.mark.spec("K9")
def test_a_new_provider_starts_closed_and_clean() -> None:
    assert to_row(BreakerState()) == {
        "gate": "closed",
        "generation": 0,
        "window": "",
        "opened_at": None,
        "open_until": None,
        "openings": 0,
        "permits": [],
        "trial_successes": 0,
        "forced": False,
        "reason": "",
        "times": [],
        "down_since": None,
    }


@pytest.mark.spec("K9", "K19")
def test_a_row_that_an_earlier_release_wrote_is_read() -> None:
    old = to_row(BreakerState(gate=Gate.OPEN, generation=4, window="11", opened_at=5, openings=2, reason="down"))
    del old["times"], old["down_since"]
    assert from_row(old) == BreakerState(
        gate=Gate.OPEN, generation=4, window="11", opened_at=5, openings=2, reason="down"
    )


@pytest.mark.spec("K9")
def test_a_breaker_whose_policy_asks_for_fewer_trials_than_have_succeeded_still_closes() -> None:
    """A deploy may come while it is half open: it is neither an error nor a breaker that nothing closes any more."""
    policy = BreakerPolicy(trials=1)
    state, verdict = admit(BreakerState(gate=Gate.HALF_OPEN, generation=3, trial_successes=2), policy, 0, "p")
    assert isinstance(verdict, Admitted) and verdict.trial
    _, refused = admit(state, policy, 0, "another")
    assert not isinstance(refused, Admitted), "one at a time"
    assert record(state, policy, 0, 3, "p", ok=True).gate is Gate.CLOSED

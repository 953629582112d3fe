"""The places of a provider that takes so many calls at once: a table of who has one, and until when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import rate

NOW = 1_000
TAKING = [
    ("the first place", {}, 1, {"me": 2_000}),
    ("the last place", {"a": 1_500}, 2, {"a": 1_500, "me": 2_000}),
    ("none is left", {"a": 1_500}, 1, None),
    ("one whose time is over is free", {"a": 1_000}, 1, {"me": 2_000}),
    ("one whose time is over in a moment is not", {"a": 1_001}, 1, None),
    ("asked for twice", {"me": 1_500}, 2, {"me": 2_000}),
]


@pytest.mark.spec("K10")
@pytest.mark.parametrize(("held", "limit", "after"), [case[1:] for case in TAKING], ids=[case[0] for case in TAKING])
def test_a_place_is_taken_while_there_is_one(held: dict[str, int], limit: int, after: dict[str, int] | None) -> None:
    assert rate.take_place(held, limit, NOW, "me", 2_000) == after


@pytest.mark.spec("K10")
def test_only_ones_own_place_is_given_back_and_what_is_over_is_forgotten() -> None:
    assert rate.give_place_back({"me": 1_500, "a": 1_500, "b": 1_000}, NOW, "me") == {"a": 1_500}
    assert rate.give_place_back({"a": 1_500}, NOW, "me") == {"a": 1_500}


@pytest.mark.spec("K10")
@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(NOW - 2, NOW + 2)), st.integers(0, 7), st.sampled_from("ab")
)
def test_no_more_places_are_held_than_there_are(held: dict[str, int], limit: int, permit: str) -> None:
    room = rate.free_places(held, limit, NOW)
    taken = rate.take_place(held, limit, NOW, permit, NOW + 5)
    assert (taken is not None) is (room > 0)
    live = {name for name, until in held.items() if until > NOW}
    assert room == max(0, limit - len(live))
    if taken is not None:
        assert len(taken) <= limit and set(taken) == live | {permit}

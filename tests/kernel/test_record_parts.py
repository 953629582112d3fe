"""Marks and refusals of one group are written in as many statements as a key is in it: none may hide another."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.record import _split_by_key

entries = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)))


@given(entries)
def test_every_entry_is_in_one_part_and_no_part_has_a_key_twice(given: list[tuple[str, int]]) -> None:
    parts = _split_by_key(given, lambda entry: entry[0])
    assert Counter(entry for part in parts for entry in part) == Counter(given)
    assert all(len({key for key, _ in part}) == len(part) for part in parts)
    for key in "abc":
        of_key = [entry for part in parts for entry in part if entry[0] == key]
        assert of_key == [entry for entry in given if entry[0] == key], "in their order"
    assert len(parts) == max(Counter(key for key, _ in given).values(), default=0), "and no more than there must be"

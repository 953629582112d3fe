"""The database's time, as a process knows it: what a slow answer leaves open is not guessed."""

from __future__ import annotations

import pytest

from holdfast.stores.clock import correct_offset


@pytest.mark.parametrize(
    ("known", "asked_at", "answered_at", "theirs", "offset"),
    [
        (0, 1_000, 3_000, 1_001, 0),  # they answered at once, and this process had no turn for two seconds
        (0, 1_000, 1_002, 61_001, 59_999),  # they are a minute ahead
        (0, 61_000, 61_002, 1_001, -59_999),  # or behind
        (59_999, 5_000, 9_000, 65_500, 59_999),  # a slow answer that fits what is known
        (59_999, 5_000, 5_002, 5_001, 1),  # their clock was set back
    ],
)
def test_an_answer_moves_the_offset_no_further_than_it_proves(
    known: int, asked_at: int, answered_at: int, theirs: int, offset: int
) -> None:
    assert correct_offset(known, asked_at, answered_at, theirs) == offset

"""What is wrong with a number that somebody gave, in words that follow its name."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.given import COUNT_MAX, SECONDS_MAX, count_problem, flag_problem, seconds_problem

YEARS = "must be at most a hundred years"
SECONDS, ABOVE = "must be a number of seconds of 0 or more", "must be a number of seconds above 0"
WHOLE = "must be a whole number of 1 or more"


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    ("value", "problem", "above_zero"),
    [
        (0, None, ABOVE),
        (0.5, None, None),
        (SECONDS_MAX, None, None),
        (SECONDS_MAX + 1, YEARS, YEARS),
        (-0.1, SECONDS, ABOVE),
        ("5", SECONDS, ABOVE),
        (None, SECONDS, ABOVE),
        (True, SECONDS, ABOVE),
        (float("nan"), SECONDS, ABOVE),
        (float("inf"), SECONDS, ABOVE),
    ],
)
def test_seconds_are_a_number_that_can_be_waited_for(value: Any, problem: str | None, above_zero: str | None) -> None:
    assert (seconds_problem(value), seconds_problem(value, above_zero=True)) == (problem, above_zero)


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (1, None),
        (COUNT_MAX, None),
        (COUNT_MAX + 1, f"must be at most {COUNT_MAX}"),
        (0, WHOLE),
        (1.0, WHOLE),
        (True, WHOLE),
        ("1", WHOLE),
    ],
)
def test_a_count_is_a_whole_number(value: Any, problem: str | None) -> None:
    assert count_problem(value) == problem
    assert flag_problem(value) == (None if isinstance(value, bool) else "must be True or False")

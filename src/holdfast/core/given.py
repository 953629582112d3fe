"""Values that a caller gives: seconds, counts, flags and texts that could not work or be stored, in a sentence.

Each function says what is wrong as the end of a sentence, "must be ...", or None. A number that no column holds is as
wrong as one that is negative.
"""

from __future__ import annotations

import math

from holdfast.core.failure import Category, Failure, failure

SECONDS_MAX = 100 * 365.25 * 86_400
COUNT_MAX = 2**31 - 1


class BadValue(ValueError):
    """A value that cannot work. In a handler it is a mistake that no retry fixes."""

    @property
    def failure(self) -> Failure:
        return failure(Category.BUG, "USAGE_ERROR", str(self))


def is_number(value: object) -> bool:
    """Whether it is one that can be reckoned with: neither True nor NaN nor infinity."""
    return math.isfinite(value) if isinstance(value, float) else type(value) is not bool and isinstance(value, int)


def seconds_problem(value: object, *, above_zero: bool = False) -> str | None:
    if is_number(value) and value > SECONDS_MAX:  # type: ignore[operator]
        return "must be at most a hundred years"
    if is_number(value) and (value > 0 if above_zero else value >= 0):  # type: ignore[operator]
        return None
    return f"must be a number of seconds {'above 0' if above_zero else 'of 0 or more'}"


def count_problem(value: object) -> str | None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        return "must be a whole number of 1 or more"
    return None if value <= COUNT_MAX else f"must be at most {COUNT_MAX}"


def flag_problem(value: object) -> str | None:
    return None if isinstance(value, bool) else "must be True or False"


def is_storable(text: str) -> bool:
    """Whether both databases hold it as it is: a NUL and half of a character (a lone surrogate) would be replaced, and
    two such texts would be one."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text))


def text_problem(value: object, length_max: int) -> str | None:
    if not isinstance(value, str) or not 0 < len(value) <= length_max:
        return f"must be a text of 1 to {length_max} characters"
    return None if is_storable(value) else "must not hold a NUL or half of a character"

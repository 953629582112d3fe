"""Which keys of a list may come back in a cursor, and which would be a mistake in a statement."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from holdfast.errors import InvalidInput
from holdfast.operator.page import BY_ID, BY_KEY, Ordering, _decode, by_sequence, is_number_and_uuid

SEQUENCE, TIMED = by_sequence("at"), Ordering(("at", "id"), "at", is_number_and_uuid)
ID = "019b76da-a800-7d8f-91b7-584a2265b1f5"


def cursor(start: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps({"shop": start}).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("ordering", "key"),
    [(SEQUENCE, 0), (SEQUENCE, 2**63 - 1), (BY_ID, ID), (BY_KEY, "any text"), (TIMED, [7, ID])],
)
def test_the_key_of_a_last_row_is_taken(ordering: Ordering, key: Any) -> None:
    assert _decode(cursor(key), ordering) == {"shop": key}


@pytest.mark.parametrize(
    ("ordering", "key"),
    [(SEQUENCE, key) for key in (-1, 2**63, "1", None, 1.5, [1])]
    + [(BY_ID, key) for key in (7, None, "", ID.upper(), ID[:-1])]
    + [(BY_KEY, key) for key in (7, None, "a\0b")]
    + [(TIMED, key) for key in (7, [7], [7, ID, ID], [ID, 7], ["7", ID], [-1, ID], [7, "x"])],
)
def test_a_key_that_no_row_has_is_refused(ordering: Ordering, key: Any) -> None:
    with pytest.raises(InvalidInput, match="what an earlier page gave"):
        _decode(cursor(key), ordering)


@pytest.mark.parametrize("text", ["[]", "7", "not JSON", '"shop"'])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="what an earlier page gave"):
        _decode(base64.urlsafe_b64encode(text.encode()).decode(), SEQUENCE)

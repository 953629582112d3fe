"""`field=value` on a command line, read as what stands in the letter's input now suggests, or as JSON."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import InvalidInput
from holdfast.operator.letters import _parse_assignment

PRESENT = {"pieces": 6, "item": "rope", "to": [{"name": "ann"}]}


@pytest.mark.spec("K8")
@pytest.mark.parametrize(
    ("word", "path", "value"),
    [
        ("pieces=5", "pieces", 5),
        ("item=5", "item", "5"),
        ("item:=5", "item", 5),
        ("to.0.name=a=b", "to.0.name", "a=b"),
        ("to:=[]", "to", []),
    ],
)
def test_a_value_is_what_its_field_holds_or_json(word: str, path: str, value: Any) -> None:
    assert _parse_assignment(PRESENT, word) == (path, value)


@pytest.mark.spec("K8")
@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("pieces", "must be field=value"),
        ("=5", "must be field=value"),
        (":=5", "must be"),
        ("item:=x", "is not JSON: x"),
    ],
)
def test_what_is_no_assignment_is_refused_in_a_sentence(word: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        _parse_assignment(PRESENT, word)

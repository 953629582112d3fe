"""What travels to the database as JSON can always be stored there."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.tables import batch

anything = st.text(st.characters(codec=None))


@pytest.mark.spec("K19")
@given(st.lists(anything))
@example(["a\0b"])
@example(["a\ud83db"])
def test_no_text_carries_a_nul_or_a_lone_surrogate_to_the_database(texts: list[str]) -> None:
    for text in json.loads(batch.text(texts)):
        assert "\0" not in text
        text.encode("utf-8")


@pytest.mark.spec("K19")
@given(st.text())
def test_ordinary_text_travels_unchanged(text: str) -> None:
    if "\0" not in text:
        assert json.loads(batch.text([text])) == [text]

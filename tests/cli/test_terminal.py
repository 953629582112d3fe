"""Nothing that a stranger wrote is obeyed by the terminal of the person who reads it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.terminal import printable, printable_within
from tests.cli import shop
from tests.cli.conftest import Place

HOSTILE = "eve\x1b]0;owned\x07\x1b[2J\x9b31m\u202egpj.exe\r"


def obeyed(text: str) -> set[str]:
    """What a terminal would act upon instead of showing it."""
    return {sign for sign in text if unicodedata.category(sign) in ("Cc", "Zl", "Zp")} - set("\n\t") | (
        {sign for sign in text if unicodedata.bidirectional(sign) in ("RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI")}
    )


@pytest.mark.spec("K30")
@given(st.text())
def test_no_text_holds_what_a_terminal_obeys(text: str) -> None:
    assert obeyed(printable(text)) == set()
    assert printable_within({text: [text, {"a": text}, 1, None]}) == {
        printable(text): [printable(text), {"a": printable(text)}, 1, None]
    }


@pytest.mark.spec("K30")
def test_every_word_that_is_not_ours_is_shown_and_not_obeyed(place: Place) -> None:
    place.job(shop.Pay, -1)
    (letter,) = place.items("dead", "list")
    said = place.ok("dead", "triage", letter["id"], "--cause", "data", "--actor", HOSTILE, "--notes", HOSTILE)
    said += place.ok("breakers", "open", "bank", "--reason", HOSTILE, "--actor", HOSTILE)
    shown = [place.ok("dead", "show", letter["id"]), place.ok("actions"), place.on_shop("dead", "show", HOSTILE).output]
    assert "\\x1b]0;owned" in shown[0] and "eve" in shown[1]
    assert obeyed("".join([said, *shown])) == set()

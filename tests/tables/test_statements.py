"""Nobody writes a statement without saying what dead row versions behind a held snapshot make of it."""

from __future__ import annotations

import pytest

from tests.horizon.explaining import every_statement
from tests.horizon.statements import BEHIND_THEIR_OWN, EXCUSED, MEASURED, PAGES


@pytest.mark.spec("K21")
def test_every_statement_is_measured_or_excused() -> None:
    known = set(every_statement().values())
    listed = [MEASURED | BEHIND_THEIR_OWN, PAGES, *EXCUSED.values()]
    assert known - set().union(*listed) == set(), "measure it, or say why it needs no measuring"
    assert set().union(*listed) - known == set(), "there is no such statement any more"
    assert sum(map(len, listed)) == len(set().union(*listed))

"""The quality bench: every area is in the table, and a missed goal is an exit code."""

from __future__ import annotations

import pytest
from quality.areas import areas
from quality.row import Row, all_of, at_least, at_most, not_measured, table_of

from quality import __main__ as bench


def test_every_area_can_be_measured() -> None:
    assert {"writing"} <= areas().keys()
    assert all(callable(measure) for measure in areas().values())


def test_a_row_knows_whether_its_goal_is_met() -> None:
    assert at_least("recall", 0.9, 0.9).met and not at_least("recall", 0.89, 0.9).met
    assert at_most("time", 1, 1, " s").met and not at_most("time", 1.1, 1, " s").met
    assert all_of("kinds", 3, 3).met and not all_of("kinds", 2, 3).met
    assert not_measured("speech", "all", "espeak-ng is not installed").met is None


@pytest.mark.parametrize(("met", "code"), [(True, 0), (False, 1), (None, 0)])
def test_only_a_missed_goal_fails_the_bench(met: bool | None, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"small": lambda: [Row("what", "goal", "measured", met)]}
    monkeypatch.setattr(bench, "areas", lambda: known)
    assert bench.main(["small"]) == code


def test_a_new_table_takes_the_old_ones_place() -> None:
    page = f"before\n{bench.BEGIN}\nold\n{bench.END}\nafter\n"
    table = table_of([("pdf", [Row("order", ">= 1", "0.5", False)])])
    written = bench.with_table(page, table)
    assert "old" not in written and "| pdf | order | >= 1 | 0.5 | **missed** |" in written
    assert written.startswith("before\n") and written.endswith("\nafter\n")

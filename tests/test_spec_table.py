"""The table of the specification counts honestly."""

from __future__ import annotations

import pytest

from tests.spec_table import ROWS, broken_claims, read_rows, summary_line, with_results

PAGE = "| K1 | claimed | nothing is lost |\n| K2 | - | claims |\n| K3 | - | leases |\n"


def test_every_row_of_the_four_chapters_is_listed_once() -> None:
    listed = [row.id for row in read_rows(ROWS.read_text())]
    chapters = {"K": 20, "G": 18, "C": 12, "R": 10}
    assert listed == [f"{chapter}{n}" for chapter, last in chapters.items() for n in range(1, last + 1)]


def test_a_row_is_shown_only_by_a_test_that_passed() -> None:
    rows = with_results(read_rows(PAGE), {"K1": {"a": "passed", "b": "skipped"}, "K2": {"c": "skipped"}})
    assert [row.state for row in rows] == ["shown", "pending", "pending"]
    assert broken_claims(rows) == []
    assert summary_line(rows) == "conformance: 1 shown, 0 failing, 2 pending; every claimed row is shown"


@pytest.mark.parametrize("results", [{}, {"K1": {"a": "skipped"}}, {"K1": {"a": "passed", "b": "failed"}}])
def test_a_claim_without_proof_is_broken(results: dict[str, dict[str, str]]) -> None:
    assert [row.id for row in broken_claims(with_results(read_rows(PAGE), results))] == ["K1"]

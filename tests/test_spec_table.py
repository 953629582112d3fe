"""The table of the specification counts honestly."""

from __future__ import annotations

import pytest

from tests.spec_table import CHAPTERS, SOURCES, broken_claims, read_rows, summary_line, with_results

PAGE = "| K1 | claimed | nothing is lost |\n| K2 | - | claims |\n| K3 | - | leases |\n"
SENTENCES = "| 000.1 | claimed | nothing is lost |\n| 004.31 | - | the stored state is read first |\n"


def test_every_row_of_the_four_chapters_is_listed_once() -> None:
    listed = [row.id for row in read_rows(CHAPTERS.read_text())]
    chapters = {"K": 30, "G": 18, "C": 12, "R": 10}
    assert listed == [f"{chapter}{n}" for chapter, last in chapters.items() for n in range(1, last + 1)]


def test_every_sentence_of_the_five_sources_is_listed_once() -> None:
    listed = [row.id for row in read_rows(SOURCES.read_text())]
    sentences = {"000": 41, "001": 37, "002": 23, "003": 11, "004": 31}
    assert listed == [f"{source}.{n}" for source, last in sentences.items() for n in range(1, last + 1)]
    assert len(listed) == 143


def test_a_row_is_shown_only_by_a_test_that_passed() -> None:
    rows = with_results(read_rows(PAGE), {"K1": {"a": "passed", "b": "skipped"}, "K2": {"c": "skipped"}})
    assert [row.state for row in rows] == ["shown", "pending", "pending"]
    assert broken_claims(rows) == []
    assert summary_line(rows) == "conformance: 1 shown, 0 failing, 2 pending; every claimed row is shown"


@pytest.mark.parametrize("results", [{}, {"K1": {"a": "skipped"}}, {"K1": {"a": "passed", "b": "failed"}}])
def test_a_claim_without_proof_is_broken(results: dict[str, dict[str, str]]) -> None:
    assert [row.id for row in broken_claims(with_results(read_rows(PAGE), results))] == ["K1"]


def test_the_summary_says_how_many_sentences_of_the_sources_are_shown() -> None:
    rows = with_results(read_rows(PAGE + SENTENCES), {"K1": {"a": "passed"}, "000.1": {"a": "passed"}})
    assert summary_line(rows) == (
        "conformance: 2 shown, 0 failing, 3 pending; every claimed row is shown;"
        " of the sources' sentences 1 of 2 are shown"
    )

"""The bench's own arithmetic, and that the page tells what the last run measured."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from bench.arithmetic import percentile, ratios, slope, spread
from bench.asking import ask
from bench.charts import chart
from bench.model import Book, Measured, Row, Run, at_least, at_most, rate_ratio
from bench.report import Report, medians, table
from bench.rows import ROWS
from bench.runs.depth import touched
from bench.stopwatch import latency

from bench import page

LATEST = Path(page.__file__).parent / "results" / "latest.json"


def test_ratios_are_taken_round_by_round() -> None:
    found = spread(ratios([10, 40, 30], [5, 10, 30]))
    assert (found.median, found.low, found.high) == (2, 1, 4)
    assert ratios([1, 2, 3], [1]) == [1], "a round that one side missed counts for neither"


@pytest.mark.parametrize("share, value", [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_a_percentile_is_a_value_that_was_measured(share: float, value: float) -> None:
    assert percentile(list(range(1, 101))[::-1], share) == value


def test_latency_tells_the_middle_and_the_tail() -> None:
    assert latency([float(n) for n in range(1, 101)]) == {"jobs": 100, "p50_ms": 50, "p99_ms": 99}


def test_a_slope_knows_how_sure_it_is() -> None:
    sure = slope([0, 1, 2, 3], [5, 7, 9, 11])
    assert sure.rise == pytest.approx(2) and sure.error == pytest.approx(0)
    noise = slope([0, 1, 2, 3], [5, 6, 5, 6])
    assert 0 < noise.rise < 3 * noise.error


def test_limits_are_held_by_the_median() -> None:
    assert at_least(spread([1.0, 2.0, 9.0]), 2.0).met and not at_least(spread([1.0, 1.9, 9.0]), 2.0).met
    assert at_most(spread([0.1, 1.2, 9.0]), 1.2).met and not at_most(spread([0.1, 1.3, 1.4]), 1.2).met


def test_a_row_without_one_of_its_sides_is_neither_met_nor_missed() -> None:
    book = Book()
    judge = rate_ratio(("holdfast", "noop"), ("gone", "noop"), 1.0)
    book.write(Run("holdfast", "noop", 1, 1), {"per_s": 10.0})
    assert judge(book).met is None
    book.write(Run("gone", "noop", 1, 1), {"per_s": 20.0})
    assert judge(book) == Measured("0.50 x (0.50 to 0.50): 10/s against 20/s", False, 0.5, 0.5, 0.5)
    assert medians(book) == {"holdfast": {"noop": {"per_s": 10.0}}, "gone": {"noop": {"per_s": 20.0}}}


def test_buffers_of_what_is_only_written_are_counted_once() -> None:
    def node(hits: int, **more: Any) -> dict[str, Any]:
        return {"Shared Hit Blocks": hits, "Shared Read Blocks": 0, **more}

    plan = node(
        10,
        Plans=[
            node(7, **{"Subplan Name": "CTE got"}),
            node(5, **{"Subplan Name": "CTE logged"}),
            node(3, **{"Subplan Name": "SubPlan 3"}),
            node(7, **{"CTE Name": "got"}),
        ],
    )
    assert touched(plan) == 15


def test_every_row_has_a_name_of_its_own_and_something_to_run() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names) and all(row.runs for row in ROWS)
    assert any(row.quick for row in ROWS)


def test_rows_of_a_later_sitting_replace_their_own_and_no_others() -> None:
    def report(**texts: str) -> Report:
        rows = [{"name": name, "text": text, "met": True} for name, text in texts.items()]
        return Report({"rounds": 1}, rows, {"holdfast": {name: {"per_s": 1.0} for name in texts}})

    merged = report(a="old", b="kept").updated(report(a="new", c="added"))
    assert [(row["name"], row["text"]) for row in merged.rows] == [("a", "new"), ("b", "kept"), ("c", "added")]
    assert set(merged.figures["holdfast"]) == {"a", "b", "c"}


def test_a_chart_is_whole_and_says_what_it_shows() -> None:
    drawn = chart("Jobs & more", [("ours <1>", 10.0, "10/s", "ours"), ("theirs", 5.0, "5/s", "theirs")])
    assert drawn.count("<rect") == 2 and "ours &lt;1&gt;" in drawn and 'aria-label="Jobs &amp; more"' in drawn
    widths = [float(found) for found in re.findall(r'<rect [^>]*width="([\d.]+)"', drawn)]
    assert widths[0] == pytest.approx(2 * widths[1], rel=0.01)


def test_the_page_tells_what_the_last_run_measured() -> None:
    report = Report.read(LATEST)
    text = page.PAGE.read_text()
    assert text.split(page.BEGIN)[1].split(page.END)[0].strip() == page.written(report)
    assert table(report.rows) in text


def test_the_last_run_kept_every_promise_and_measured_every_row() -> None:
    report = Report.read(LATEST)
    assert report.is_clean
    asked = {row.name for row in ROWS if isinstance(row, Row)}
    assert asked - {row["name"] for row in report.rows} == set()


def test_the_readme_says_what_the_last_run_measured() -> None:
    """Rounded; whoever publishes another run says the new figures there too."""
    said = re.sub(r"\s+", " ", (LATEST.parents[2] / "README.md").read_text())
    value = {row["name"]: row["value"] for row in Report.read(LATEST).rows}
    assert f"{value['noop']:.1f} x pgqueuer and {value['noop-brokers']:.1f} x the better" in said
    assert f"an effect each {value['three']:.0f} x DBOS" in said
    assert f"single enqueues {value['enqueue']:.0f} x and bulk {value['bulk']:.1f} x pgqueuer" in said


def test_what_is_written_is_judged_by_our_own_figure_beside_the_peers() -> None:
    book = Book()
    row = next(row for row in ROWS if row.name == "wal-noop")
    assert row.judge(book).met is None
    for side, size in (("holdfast", 900.0), ("pgqueuer", 1_550.0)):
        figures = {"wal_bytes": size, "commits": 0.01, "dead_versions": 2.0, "disk_bytes": 1_000.0}
        book.write(Run(side, "noop", 1, 1), figures)
    assert row.judge(book) == Measured("0.90 KB (0.90 to 0.90), pgqueuer 1.55", False, 900.0, 900.0, 900.0)
    left = next(row for row in ROWS if row.name == "left").judge(book)
    assert left.text.startswith("holdfast 0.010 commits, 2.0 dead versions, 1,000 bytes on disk; pgqueuer")


def test_a_question_needs_no_driver(postgres_url: str) -> None:
    assert ask(postgres_url, "SELECT 1, NULL, 'ä b'") == ["1", None, "ä b"]
    with pytest.raises(RuntimeError, match="syntax error"):
        ask(postgres_url, "SELEC")
    with pytest.raises(RuntimeError, match="no row"):
        ask(postgres_url, "SELECT 1 WHERE FALSE")

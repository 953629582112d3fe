"""The specification as a table of results: row -> tests -> state.

A pytest plugin that notes the result of every test marked `@pytest.mark.spec("K4", ...)`, and the program behind
`make conformance`, which prints the table. The rows are read from docs/reference: spec-rows.md has the chapters of the
specification, source-rows.md the sentences of its five sources, by number: `@pytest.mark.spec("000.9")`.

    shown     at least one test of the row passed, and none failed
    failing   a test of the row failed
    pending   no test of the row has run to its end

A row that is `claimed` there and not shown makes the program exit 1. A marker that names an unknown row is an error.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
REFERENCE = REPOSITORY / "docs" / "reference"
CHAPTERS, SOURCES = REFERENCE / "spec-rows.md", REFERENCE / "source-rows.md"
RESULTS = REPOSITORY / ".cache" / "conformance.json"
_ROW = re.compile(r"^\| ([A-Z]\d+|\d{3}\.\d+) \| (claimed|-) \| (.+) \|$", re.MULTILINE)
_WORST_FIRST = ("failed", "passed", "skipped")


@dataclass(frozen=True)
class Row:
    """One line of the specification; `tests` maps a test's id to passed, failed or skipped."""

    id: str
    claimed: bool
    summary: str
    tests: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_sentence(self) -> bool:
        """Whether it is a sentence of a source, numbered as 000.9."""
        return self.id[0].isdigit()

    @property
    def state(self) -> str:
        if "failed" in self.tests.values():
            return "failing"
        return "shown" if "passed" in self.tests.values() else "pending"


def read_rows(page: str) -> list[Row]:
    """The rows that a page lists, in its order."""
    return [Row(id, claim == "claimed", summary) for id, claim, summary in _ROW.findall(page)]


def every_row() -> list[Row]:
    """The specification's rows, then the sources' sentences."""
    return [row for page in (CHAPTERS, SOURCES) for row in read_rows(page.read_text())]


def with_results(rows: Iterable[Row], results: Mapping[str, Mapping[str, str]]) -> list[Row]:
    """The rows with what their tests answered: `results` is row id -> test id -> result."""
    return [Row(row.id, row.claimed, row.summary, results.get(row.id, {})) for row in rows]


def summary_line(rows: Sequence[Row]) -> str:
    counts = {state: sum(row.state == state for row in rows) for state in ("shown", "failing", "pending")}
    broken = [row.id for row in broken_claims(rows)]
    claims = f"without the proof they need: {', '.join(broken)}" if broken else "every claimed row is shown"
    sentences = [row.state == "shown" for row in rows if row.is_sentence]
    sources = f"; of the sources' sentences {sum(sentences)} of {len(sentences)} are shown" if sentences else ""
    shown, failing, pending = counts.values()
    return f"conformance: {shown} shown, {failing} failing, {pending} pending; {claims}{sources}"


def broken_claims(rows: Iterable[Row]) -> list[Row]:
    """The rows that fail the build: a failing test is never fine, a missing one only where nothing is claimed."""
    return [row for row in rows if row.state == "failing" or (row.claimed and row.state != "shown")]


def table(rows: Iterable[Row]) -> str:
    """A line per row, and below it a line per test."""
    lines = []
    for row in rows:
        lines.append(f"{row.id:<7} {row.state:<8} {'claimed' if row.claimed else '':<8} {row.summary}")
        lines += [f"          {result:<8} {test}" for test, result in sorted(row.tests.items())]
    return "\n".join(lines)


# The plugin: notes results while the tests run.


class _Notebook:
    """Which rows each test shows, and how it ended."""

    def __init__(self) -> None:
        self.rows_of: dict[str, tuple[str, ...]] = {}
        self.ended: dict[str, str] = {}

    def note(self, test: str, result: str) -> None:
        """Keep the worst of set-up, call and tear-down; a pass counts only if the body ran."""
        earlier = self.ended.get(test, result)
        self.ended[test] = min(earlier, result, key=_WORST_FIRST.index)

    def results(self) -> dict[str, dict[str, str]]:
        by_row: dict[str, dict[str, str]] = defaultdict(dict)
        for test, rows in self.rows_of.items():
            for row in rows:
                by_row[row][test] = self.ended.get(test, "skipped")
        return dict(by_row)


_notebook = pytest.StashKey[_Notebook]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_notebook] = _Notebook()
    config.pluginmanager.register(_Recorder(config.stash[_notebook]))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    known = {row.id for row in every_row()}
    for item in items:
        ids = tuple(id for marker in item.iter_markers("spec") for id in marker.args)
        if unknown := [id for id in ids if id not in known]:
            raise pytest.UsageError(f"{item.nodeid} shows {unknown}, which docs/reference does not list")
        if ids:
            item.user_properties.append(("spec", ids))  # travels with the report, also from another process


class _Recorder:
    def __init__(self, notebook: _Notebook) -> None:
        self._notebook = notebook

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, ids in report.user_properties:
            if name == "spec":
                self._notebook.rows_of[report.nodeid] = tuple(ids)
        if report.when == "call" or report.outcome != "passed":
            self._notebook.note(report.nodeid, report.outcome)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Keep the results of a run of everything. A run of some tests says nothing about the others."""
    option = session.config.option
    if hasattr(session.config, "workerinput"):
        return  # one of several processes: the one that started them keeps the results
    is_whole = session.config.args == session.config.getini("testpaths") and not (
        option.keyword
        or option.markexpr
        or option.collectonly
        or option.fast
        or session.shouldstop
        or session.shouldfail
    )
    if is_whole and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        results = session.config.stash[_notebook].results()
        if option.lf and RESULTS.exists():  # a second look at what failed: the rest stands
            results = _updated(json.loads(RESULTS.read_text()), results)
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True))


def _updated(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    return {row: {**before.get(row, {}), **after.get(row, {})} for row in before.keys() | after.keys()}


# The program.


def main() -> int:
    parser = argparse.ArgumentParser(prog="conformance", description="Print the specification's rows and their state.")
    parser.add_argument("--summary", action="store_true", help="only the summary line")
    parser.add_argument("--last", action="store_true", help="use the last whole run, however old")
    asked = parser.parse_args()
    if not asked.last and not _results_are_fresh():
        in_units = ("-n", "3", "--dist", "loadscope")  # as `make test` runs them; see tests/order.py
        subprocess.run([sys.executable, "-m", "pytest", "-q", *in_units], cwd=REPOSITORY, check=False)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    rows = with_results(every_row(), results)
    if not asked.summary:
        print(table(rows))
    print(summary_line(rows))
    return 1 if broken_claims(rows) else 0


def _results_are_fresh() -> bool:
    """Whether the last whole run is younger than everything it depended on."""
    if not RESULTS.exists():
        return False
    sources = [REPOSITORY / "pyproject.toml", CHAPTERS, SOURCES]
    for folder in ("src", "tests"):
        sources += [path for path in (REPOSITORY / folder).rglob("*") if path.suffix != ".pyc" and path.is_file()]
    return RESULTS.stat().st_mtime > max(path.stat().st_mtime for path in sources)


if __name__ == "__main__":
    sys.exit(main())

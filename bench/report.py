"""What a sitting came to: a table for people, JSON for the documentation, and whether every promise was kept."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

from bench.arithmetic import spread
from bench.model import Book, Row
from bench.sides import Sides

HEAD = ("what", "must be", "measured", "met")


@dataclass(frozen=True, slots=True)
class Report:
    """One run of the bench. `rows` are in the order of the report; `sitting` says when and where."""

    sitting: dict[str, Any]
    rows: list[dict[str, Any]]
    figures: dict[str, dict[str, dict[str, float]]]
    settings: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def is_clean(self) -> bool:
        """Whether the audit found every database of ours as promised."""
        return not any(row["name"] == "audit" and row["met"] is False for row in self.rows)

    def updated(self, newer: Report) -> Report:
        """This report with the rows and figures that `newer` has, each row keeping the sitting it comes from."""
        fresh = {row["name"]: row for row in newer.rows}
        known = {row["name"] for row in self.rows}
        rows = [fresh.get(row["name"], row) for row in self.rows]
        rows += [row for row in newer.rows if row["name"] not in known]
        figures = {side: dict(tasks) for side, tasks in self.figures.items()}
        for side, tasks in newer.figures.items():
            figures.setdefault(side, {}).update(tasks)
        return replace(newer, rows=rows, figures=figures, settings=self.settings | newer.settings)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @staticmethod
    def read(path: Path) -> Report:
        return Report(**json.loads(path.read_text()))


def judged(
    rows: Sequence[Row],
    book: Book,
    sides: Sides,
    *,
    rounds: int,
    quick: bool,
    before: dict[str, Any],
    after: dict[str, Any],
) -> Report:
    sitting = {
        "at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "rounds": rounds,
        "quick": quick,
        "machine": after | {"load_before": before["load"], "fsync_per_s_before": before["fsync_per_s"]},
    }
    marks = {"rounds": rounds, "load": after["load"], "fsync_per_s": after["fsync_per_s"]}
    found = [{"name": row.name, "what": row.what, "must": row.must, **asdict(row.judge(book)), **marks} for row in rows]
    return Report(
        sitting,
        [*found, *(row | marks for row in audit(book))],
        medians(book),
        dict(sides.settings),
        dict(sides.missing),
    )


def audit(book: Book) -> list[dict[str, Any]]:
    """Holdfast's databases were audited at the end of each of its runs; no row if none of them was."""
    broken = [one["broken_promises"] for page in book.pages.values() for one in page if "broken_promises" in one]
    if not broken:
        return []
    text = f"{sum(broken):.0f} in {len(broken)} databases"
    row = {"name": "audit", "what": "broken promises that `holdfast audit` finds afterwards", "must": "0"}
    return [row | {"text": text, "met": sum(broken) == 0, "value": float(sum(broken)), "low": None, "high": None}]


def medians(book: Book) -> dict[str, dict[str, dict[str, float]]]:
    """The middle figure of every side and task, for charts."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for (side, task), pages in book.pages.items():
        kept = {name: spread([page[name] for page in pages if name in page]).median for name in pages[0]}
        found.setdefault(side, {})[task] = {name: round(value, 3) for name, value in kept.items()}
    return found


def cells(row: dict[str, Any]) -> tuple[str, str, str, str]:
    met = {True: "yes", False: "NO", None: "-"}[row["met"]]
    if row["must"] == "(shown)":
        met = "-"
    return row["what"], row["must"], row["text"], met


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = ["| " + " | ".join(HEAD) + " |", "| --- | --- | --- | --- |"]
    return "\n".join(lines + ["| " + " | ".join(cells(row)) + " |" for row in rows])


def show(report: Report, out: TextIO) -> None:
    sitting, place = report.sitting, report.sitting["machine"]
    print(
        f"{sitting['rounds']} rounds, {place['cores']} cores, {place['fsync_per_s_before']} to {place['fsync_per_s']} "
        f"fsync/s, load {place['load_before']} to {place['load']}\n",
        file=out,
    )
    for side, text in report.settings.items():
        print(f"{side:14} {text}", file=out)
    for why in report.missing.values():
        print(f"left out: {why}", file=out)
    rows = [HEAD, *[cells(row) for row in report.rows]]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    print(file=out)
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip(), file=out)

"""What an area says about itself: rows of a table, each with the goal that it is held against."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A measurement beside its goal. `met` is None where nothing could be measured; `measured` then says why."""

    what: str
    goal: str
    measured: str
    met: bool | None


Measure = Callable[[], Iterable[Row]]


def at_least(what: str, value: float, least: float, unit: str = "") -> Row:
    return Row(what, f">= {least:g}{unit}", f"{value:.3g}{unit}", value >= least)


def at_most(what: str, value: float, most: float, unit: str = "") -> Row:
    return Row(what, f"<= {most:g}{unit}", f"{value:.3g}{unit}", value <= most)


def all_of(what: str, good: int, total: int) -> Row:
    """A row for what must hold in every case."""
    return Row(what, "all", f"{good} of {total}", good == total)


def not_measured(what: str, goal: str, why: str) -> Row:
    return Row(what, goal, why, None)


def table_of(areas: Sequence[tuple[str, Sequence[Row]]]) -> str:
    """The rows as a Markdown table."""
    lines = ["| area | what | goal | measured | |", "| --- | --- | --- | --- | --- |"]
    for area, rows in areas:
        for row in rows:
            verdict = {True: "met", False: "**missed**", None: "not measured"}[row.met]
            lines.append(f"| {area} | {row.what} | {row.goal} | {row.measured} | {verdict} |")
    return "\n".join(lines)

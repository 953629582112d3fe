"""Writes the table of the last run into the documentation, between two marks: the page and the JSON agree."""

from __future__ import annotations

from pathlib import Path

from bench.report import Report, table

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "performance.md"
BUSY_LOAD = 2
BUSY = (
    "**The machine was busy with other work during this run** (the load stands above): ratios of rates and of CPU "
    "hold, waits and pick-up times say little."
)
BEGIN, END = "<!-- the last run: written by the bench -->", "<!-- the end of the last run -->"


def written(report: Report) -> str:
    """What stands between the marks."""
    sitting, place = report.sitting, report.sitting["machine"]
    lines = [
        f"{sitting['at']}, {place['cores']} cores, Python {place['python']}. The JSON says how many rounds each row "
        "had, and the load and the fsync rate at their end; the last sitting had "
        f"{sitting['rounds']} round{'s' if sitting['rounds'] != 1 else ''}, a load of {place['load_before']} to "
        f"{place['load']} and {place['fsync_per_s_before']:,} to {place['fsync_per_s']:,} fsyncs a second.",
        *(["", BUSY] if place["load_before"] > BUSY_LOAD * place["cores"] else []),
        "",
        table(report.rows),
        "",
        "Settings of each contender:",
        "",
        *[f"- {side}: {text}" for side, text in sorted(report.settings.items())],
    ]
    if report.missing:
        lines += ["", "Left out: " + "; ".join(sorted(report.missing.values())) + "."]
    return "\n".join(lines)


def rewrite(report: Report, page: Path = PAGE) -> None:
    head, rest = page.read_text().split(BEGIN)
    _, tail = rest.split(END)
    page.write_text(f"{head}{BEGIN}\n\n{written(report)}\n\n{END}{tail}")

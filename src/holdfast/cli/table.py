"""Tables for people: as wide as their terminal, what matters first, colour by state, times told from now.

In a pipe they are 80 columns wide, or as COLUMNS says, without colour; with `--json` a program gets everything whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

SHORT_ID = 8
CUT_MIN = 12
GAP = 2
IDS = ("id", "job_id", "letter_id", "requestId", "submissionId")
NAMES = {
    "error_class": "class",
    "failure_reason": "why",
    "attempts_made": "tries",
    "last_error": "error",
    "open_s": "open for",
    "parked": "held",
}
COLOURS = {
    "queued": "cyan",
    "processing": "blue",
    "waiting": "magenta",
    "succeeded": "green",
    "dead": "bold red",
    "cancelled": "bright_black",
    "open": "bold red",
    "half_open": "yellow",
    "closed": "green",
    "escalated": "bold red",
    "triaged": "yellow",
    "remediated": "yellow",
    "replayed": "cyan",
    "resolved": "green",
    "pending": "cyan",
    "published": "green",
    "failed": "bold red",
    "sent": "green",
    "unknown": "yellow",
    "review": "bold red",
}
SPANS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def table_of(rows: Sequence[dict[str, Any]], columns: list[str]) -> Table:
    """Rows as a table that fits the terminal. A column that no row fills is left out, and so are the last ones that
    have no room; of the others the last are cut first."""
    filled = [column for column in columns if any(row.get(column) not in (None, "") for row in rows)]
    length = {column: unique_length([str(row.get(column) or "") for row in rows]) for column in filled if column in IDS}
    now = datetime.now(UTC)
    cells = {column: [_text(column, row.get(column), length.get(column), now) for row in rows] for column in filled}
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    whole = {column: max(len(_head(column)), *(text.cell_len for text in cells[column])) for column in filled}
    for column, width in _fit(whole, Console().width).items():
        table.add_column(_head(column), overflow="ellipsis", no_wrap=True, width=width)
    for row in zip(*(cells[column] for column in filled[: len(table.columns)]), strict=True):
        table.add_row(*row)
    return table


def _fit(whole: dict[str, int], room: int) -> dict[str, int]:
    """How wide each column is, given how wide its longest cell is."""
    least = {
        column: width if _is_whole(column) else min(width, max(CUT_MIN, len(_head(column))))
        for column, width in whole.items()
    }
    shown = dict(whole)
    while len(shown) > 1 and sum(least[column] + GAP for column in shown) - GAP > room:
        shown.popitem()
    excess = sum(width + GAP for width in shown.values()) - GAP - room
    for column in reversed(list(shown)):
        cut = max(min(excess, shown[column] - least[column]), 0)
        shown[column] -= cut
        excess -= cut
    return shown


def _head(column: str) -> str:
    return NAMES.get(column, column).removesuffix("_at").removesuffix("At")


def _is_whole(column: str) -> bool:
    return column in IDS or column in ("state", "status", "gate", "system") or is_time(column)


def _text(column: str, value: Any, id_length: int | None, now: datetime) -> Text:
    """As Text: what a user or a provider wrote is no markup."""
    if id_length is not None and isinstance(value, str):
        return Text(value[:id_length], style="bold")
    if isinstance(value, str) and is_time(column):
        return Text(from_now(value, now))
    if isinstance(value, float) and column.endswith("_s"):
        return Text(span(value) if value else "")
    words = brief_error(value) if isinstance(value, dict) else cell(value)
    return Text(" ".join(words.split()), style=COLOURS.get(words, ""))


def cell(value: Any) -> str:
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def lines(whole: Mapping[str, Any]) -> Text:
    """All that is known of one thing, a line each; what is inside of a value as JSON."""
    return Text("\n".join(f"{name:18} {cell(value)}" for name, value in whole.items() if value not in (None, "", [])))


def hang(words: str, rest: str, style: str = "") -> Table:
    """A word, and beside it a text that begins below itself on every further line."""
    table = Table.grid(padding=(0, 1, 0, 0), expand=False)
    table.add_column(width=6)
    table.add_column(width=6)
    table.add_column()
    table.add_row("", Text(words, style=style), Text(rest))
    return table


def is_time(column: str) -> bool:
    return column.endswith(("_at", "At")) or column in ("at", "not_before", "open_until", "timestamp")


def unique_length(ids: Sequence[str]) -> int:
    """How much of each id tells it from every other in the list; eight characters at least."""
    known = sorted({text for text in ids if text})
    return max([SHORT_ID, *(1 + _shared(*pair) for pair in pairwise(known))])


def _shared(left: str, right: str) -> int:
    """How many characters two texts begin with alike."""
    return next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), len(left))


def from_now(moment: str, now: datetime) -> str:
    """`3 min ago`, `in 20 s`; what is no time is shown as it is."""
    try:
        seconds = (datetime.fromisoformat(moment.replace("Z", "+00:00")) - now).total_seconds()
    except (TypeError, ValueError):
        return moment
    return f"in {span(seconds)}" if seconds > 0 else f"{span(-seconds)} ago"


def span(seconds: float) -> str:
    """`20 s`, `3 min`."""
    number, unit = next(((seconds / size, unit) for size, unit in SPANS if seconds >= size), (seconds, "s"))
    return f"{number:.0f} {unit}"


def brief_error(value: dict[str, Any]) -> str:
    """A stored failure in a line: its class, and what was said of it."""
    parts = [str(value[name]) for name in ("error_class", "message") if value.get(name)]
    return ": ".join(parts) or json.dumps(value, ensure_ascii=False)

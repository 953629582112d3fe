"""Tables for people: as wide as their terminal, what matters first, colour by state, times told from now.

A program that reads a pipe gets whole cells: ids and times as they are, nothing cut.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPED_WIDTH = 240
SHORT_ID = 8
IDS = ("id", "job_id", "requestId", "submissionId")
NAMES = {"error_class": "class", "failure_reason": "why", "attempts_made": "tries", "last_error": "error"}
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


def open_console() -> Console:
    """The terminal; a pipe is wide enough for whole cells."""
    console = Console()
    return console if console.is_terminal else Console(width=PIPED_WIDTH)


def table_of(rows: Sequence[dict[str, Any]], columns: list[str]) -> Table:
    """Rows as a table, for whoever reads standard output."""
    is_narrow = Console().is_terminal
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    shown = [column for column in columns if not is_narrow or any(row.get(column) not in (None, "") for row in rows)]
    for column in shown:
        is_last = column == shown[-1]
        whole = column in IDS or column in ("state", "status", "gate", "system") or is_time(column)
        table.add_column(
            NAMES.get(column, column).removesuffix("_at") if is_narrow else column,
            overflow="ellipsis" if is_narrow else "fold",
            no_wrap=is_narrow or whole,
            min_width=20 if is_narrow and is_last and not whole else None,
        )
    now = datetime.now(UTC)
    length = {column: unique_length([str(row.get(column) or "") for row in rows]) for column in shown if column in IDS}
    for row in rows:
        table.add_row(*[_text(column, row.get(column), length.get(column), now, is_narrow) for column in shown])
    return table


def _text(column: str, value: Any, id_length: int | None, now: datetime, is_narrow: bool) -> Text:
    """As Text: what a user or a provider wrote is no markup."""
    if not is_narrow:
        return Text(cell(column, value))
    if id_length is not None and isinstance(value, str):
        return Text(value[:id_length], style="bold")
    if isinstance(value, str) and is_time(column):
        return Text(from_now(value, now))
    words = cell(column, value) if not isinstance(value, dict) else brief_error(value)
    return Text(" ".join(words.split()), style=COLOURS.get(words, ""))


def cell(column: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str) and is_time(column):
        return value[:19].replace("T", " ")
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def is_time(column: str) -> bool:
    return column.endswith("_at") or column in ("at", "not_before", "open_until", "timestamp")


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
    size = abs(seconds)
    number, unit = next(((size / span, unit) for span, unit in SPANS if size >= span), (size, "s"))
    return f"in {number:.0f} {unit}" if seconds > 0 else f"{number:.0f} {unit} ago"


def brief_error(value: dict[str, Any]) -> str:
    """A stored failure in a line: its class, and what was said of it."""
    parts = [str(value[name]) for name in ("error_class", "message") if value.get(name)]
    return ": ".join(parts) or json.dumps(value, ensure_ascii=False)

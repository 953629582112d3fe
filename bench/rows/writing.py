"""Rows about what a finished job leaves behind: the log, commits, dead versions, bytes on disk."""

from __future__ import annotations

from bench.model import NOTHING, Book, Measured, Row
from bench.rows.working import AWA, OURS, PGQUEUER, THREE

KB = 1_000
SIDES = ("holdfast", "pgqueuer", "awa")


def log_bytes(task: str, most_kb: float) -> Row:
    """How much of PostgreSQL's log one of our jobs costs, from its claim to its end."""

    def judge(book: Book) -> Measured:
        if not book.has("holdfast", task):
            return NOTHING
        each = {side: book.spread(side, task, "wal_bytes") for side in SIDES if book.has(side, task)}
        ours = each.pop("holdfast")
        others = "".join(f", {side} {found.median / KB:.2f}" for side, found in each.items())
        text = f"{ours.median / KB:.2f} KB ({ours.low / KB:.2f} to {ours.high / KB:.2f}){others}"
        return Measured(text, ours.median <= most_kb * KB, ours.median, ours.low, ours.high)

    what, runs = {
        "noop": ("the log of a no-op job", (OURS, PGQUEUER, AWA)),
        "three": ("the log of three stages with one effect each", THREE[:1]),
    }[task]
    return Row(f"wal-{task}", what, f"<= {most_kb:.2f} KB", runs, judge)


def left_behind(book: Book) -> Measured:
    """Nothing is asked here: what each side leaves of a no-op job, with its history as it keeps it."""
    seen = [side for side in SIDES if book.has(side, "noop")]
    if not seen:
        return NOTHING
    return Measured("; ".join(f"{side} {_left(book, side)}" for side in seen), None)


def _left(book: Book, side: str) -> str:
    commits, dead, disk = (book.spread(side, "noop", name) for name in ("commits", "dead_versions", "disk_bytes"))
    return f"{commits.median:.3f} commits, {dead.median:.1f} dead versions, {disk.median:,.0f} bytes on disk"


ROWS = [
    log_bytes("noop", 0.8),
    log_bytes("three", 7.0),
    Row("left", "what a finished no-op job leaves behind", "(shown)", (OURS, PGQUEUER, AWA), left_behind),
]

"""Rows about accepting jobs and about picking them up."""

from __future__ import annotations

from bench.arithmetic import ratios, spread
from bench.model import NOTHING, Book, Measured, Row, Run, at_most, rate_ratio

ENQUEUE = (Run("holdfast", "enqueue32", 8_000, 3_000), Run("pgqueuer", "enqueue32", 4_000, 1_500))
BULK = Run("holdfast", "bulk", 200_000, 20_000)
PGQUEUER_BULK = Run("pgqueuer", "bulk", 200_000, 20_000)
COPY = Run("floor", "copy", 200_000, 20_000)
INSIDE = (Run("holdfast", "inside", 500, 200),)
PICKUP = (Run("holdfast", "pickup", 300, 100), Run("pgqueuer", "pickup", 300, 100))
PICKUP_SQLITE = (Run("holdfast", "pickup_sqlite", 300, 100),)


def inside(book: Book) -> Measured:
    """A transaction with an enqueue in it against one with a bare INSERT of such a row."""
    if not book.has("holdfast", "inside"):
        return NOTHING
    whole = spread(ratios(book.of("holdfast", "inside", "ours_us"), book.of("holdfast", "inside", "bare_us")))
    ours, bare = book.spread("holdfast", "inside", "ours_us"), book.spread("holdfast", "inside", "bare_us")
    return at_most(whole, 1.2, f": {ours.median:,.0f} us against {bare.median:,.0f} us, with its commit")


def pickup(book: Book) -> Measured:
    if not (book.has("holdfast", "pickup") and book.has("pgqueuer", "pickup")):
        return NOTHING
    found = spread(ratios(book.of("holdfast", "pickup", "p50_ms"), book.of("pgqueuer", "pickup", "p50_ms")))
    ours, theirs = book.spread("holdfast", "pickup", "p50_ms"), book.spread("pgqueuer", "pickup", "p50_ms")
    return at_most(found, 1.0, f": {ours.median:.1f} ms against {theirs.median:.1f} ms")


def tail(book: Book) -> Measured:
    if not book.has("holdfast", "pickup"):
        return NOTHING
    found = spread(ratios(book.of("holdfast", "pickup", "p99_ms"), book.of("holdfast", "pickup", "p50_ms")))
    return at_most(found, 4.0, f": p99 {book.spread('holdfast', 'pickup', 'p99_ms').median:.1f} ms")


def pickup_sqlite(book: Book) -> Measured:
    if not book.has("holdfast", "pickup_sqlite"):
        return NOTHING
    found = book.spread("holdfast", "pickup_sqlite", "p50_ms")
    text = f"{found.median:.2f} ms ({found.low:.2f} to {found.high:.2f})"
    return Measured(text, found.median < 3.0, found.median, found.low, found.high)


ROWS = [
    Row(
        "enqueue",
        "enqueue, one durable call each, 32 callers",
        ">= 4 x pgqueuer",
        ENQUEUE,
        rate_ratio(("holdfast", "enqueue32"), ("pgqueuer", "enqueue32"), 4.0),
        quick=True,
    ),
    Row(
        "bulk",
        "bulk enqueue",
        ">= 3 x pgqueuer",
        (BULK, PGQUEUER_BULK),
        rate_ratio(("holdfast", "bulk"), ("pgqueuer", "bulk"), 3.0),
        quick=True,
    ),
    Row(
        "bulk-copy",
        "bulk enqueue, against COPY of the same rows into the same tables",
        ">= 0.6",
        (BULK, COPY),
        rate_ratio(("holdfast", "bulk"), ("floor", "copy"), 0.6),
        quick=True,
    ),
    Row("inside", "enqueue in the caller's own transaction", "<= 1.2 x a bare INSERT", INSIDE, inside),
    Row("pickup", "pick-up on an idle system, p50", "<= pgqueuer's", PICKUP, pickup, quick=True),
    Row("pickup-tail", "pick-up on an idle system, p99", "<= 4 x p50", PICKUP[:1], tail, quick=True),
    Row("pickup-sqlite", "pick-up, embedded SQLite, p50", "< 3 ms", PICKUP_SQLITE, pickup_sqlite),
]

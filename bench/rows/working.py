"""Rows about running jobs: throughput, CPU, stages."""

from __future__ import annotations

from bench.arithmetic import ratios, spread
from bench.model import NOTHING, Book, Measured, Row, Run, at_least, at_most, rate_ratio

OURS, PGQUEUER, FLOOR = (
    Run("holdfast", "noop", 30_000, 10_000),
    Run("pgqueuer", "noop", 30_000, 10_000),
    Run("floor", "noop", 30_000, 10_000),
)
BROKERS = (Run("celery", "noop", 4_000, 1_000), Run("dramatiq", "noop", 8_000, 2_000))
AWA = Run("awa", "noop", 10_000, 3_000)
OTHERS = (Run("procrastinate", "noop", 1_000, 300), Run("dbos", "noop", 1_000, 300))
TWO = (Run("holdfast", "noop2", 30_000, 10_000), Run("pgqueuer", "noop2", 30_000, 10_000))
THREE = (Run("holdfast", "three", 1_000, 300), Run("dbos", "three", 1_000, 300))


def best_broker(book: Book) -> Measured:
    """Against whichever broker-based peer was faster in this sitting."""
    seen = [run.side for run in BROKERS if book.has(run.side, "noop")]
    if not seen or not book.has("holdfast", "noop"):
        return NOTHING
    best = max(seen, key=lambda side: book.spread(side, "noop", "per_s").median)
    found = spread(ratios(book.of("holdfast", "noop", "per_s"), book.of(best, "noop", "per_s")))
    return at_least(found, 5.0, f": {best} did {book.spread(best, 'noop', 'per_s').median:,.0f}/s")


def cpu(book: Book) -> Measured:
    """Worker and database together, per job; enqueueing is not counted."""
    if not (book.has("holdfast", "noop") and book.has("pgqueuer", "noop")):
        return NOTHING
    ours, theirs = _cpu_us(book, "holdfast"), _cpu_us(book, "pgqueuer")
    return at_most(
        spread(ratios(ours, theirs)), 0.7, f": {spread(ours).median:.0f} us against {spread(theirs).median:.0f} us"
    )


def _cpu_us(book: Book, side: str) -> list[float]:
    pairs = zip(book.of(side, "noop", "worker_us"), book.of(side, "noop", "database_us"), strict=True)
    return [worker + database for worker, database in pairs]


def others(book: Book) -> Measured:
    """Nothing is asked here: the rest of the field, for the picture."""
    seen = [run.side for run in (*BROKERS, *OTHERS) if book.has(run.side, "noop")]
    if not seen:
        return NOTHING
    rates = [f"{side} {book.spread(side, 'noop', 'per_s').median:,.0f}/s" for side in seen]
    return Measured(", ".join(rates), None)


ROWS = [
    Row(
        "noop",
        "no-op jobs on PostgreSQL, one worker process, every guarantee on",
        ">= 2.2 x pgqueuer",
        (OURS, PGQUEUER),
        rate_ratio(("holdfast", "noop"), ("pgqueuer", "noop"), 2.2),
        quick=True,
    ),
    Row(
        "noop-awa",
        "the same, against awa",
        ">= 5.5 x",
        (OURS, AWA),
        rate_ratio(("holdfast", "noop"), ("awa", "noop"), 5.5),
    ),
    Row("noop-brokers", "the same, against peers on RabbitMQ", ">= 5 x the best", (OURS, *BROKERS), best_broker),
    Row(
        "noop-floor",
        "the same, against a bare loop that promises nothing",
        "(shown)",
        (OURS, FLOOR),
        rate_ratio(("holdfast", "noop"), ("floor", "noop"), 0.0),
        quick=True,
    ),
    Row("cpu", "CPU per job, worker and database", "<= 0.7 of pgqueuer's", (OURS, PGQUEUER), cpu, quick=True),
    Row("noop-others", "the rest of the field, no-op jobs", "(shown)", (*BROKERS, *OTHERS), others),
    Row(
        "noop2",
        "no-op jobs, two worker processes",
        ">= 1.9 x pgqueuer with two",
        TWO,
        rate_ratio(("holdfast", "noop2"), ("pgqueuer", "noop2"), 1.9),
    ),
    Row(
        "three",
        "three stages with one effect each, results stored",
        ">= 48 x a DBOS workflow of three steps",
        THREE,
        rate_ratio(("holdfast", "three"), ("dbos", "three"), 48.0),
    ),
    Row(
        "three-noop",
        "the same, against no-op jobs",
        ">= 1/11",
        (THREE[0], OURS),
        rate_ratio(("holdfast", "three"), ("holdfast", "noop"), 1 / 11),
    ),
]

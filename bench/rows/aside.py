"""Rows about stages that block: in threads, and in processes."""

from __future__ import annotations

from collections.abc import Callable

from bench.arithmetic import Spread
from bench.model import NOTHING, Book, Measured, Row, Run, at_least, compare

OURS = Run("holdfast", "threads", 5_000, 1_000)
FLOOR = Run("floor", "threads", 5_000, 1_000)
ON_THE_LOOP = Run("holdfast", "threads_loop", 5_000, 1_000)
BLOCKING = (Run("holdfast", "threads_block", 5_000, 1_000), Run("floor", "threads_block", 5_000, 1_000))
COMPUTING = (Run("holdfast", "processes", 400, 100), Run("floor", "processes", 400, 100))


def against(ours: Run, theirs: Run, limit: float) -> Callable[[Book], Measured]:
    """By rate, with what a job costs in CPU: the worker's with its processes, and the database's."""

    def judge(book: Book) -> Measured:
        found = compare(book, (ours.side, ours.task), (theirs.side, theirs.task), "per_s")
        if found is None:
            return NOTHING
        return at_least(found, limit, f": {_side(book, ours)} against {_side(book, theirs)}")

    return judge


def _side(book: Book, run: Run) -> str:
    def figure(name: str) -> Spread:
        return book.spread(run.side, run.task, name)

    cpu_us = figure("worker_us").median + figure("database_us").median
    return f"{figure('per_s').median:,.0f}/s and {cpu_us:,.0f} us"


ROWS = [
    Row(
        "threads",
        "empty `def` stages, against a bare loop with a ThreadPoolExecutor",
        "(shown)",
        (OURS, FLOOR),
        against(OURS, FLOOR, 0.0),
    ),
    Row(
        "threads-loop", "the same, against `async def`", "(shown)", (OURS, ON_THE_LOOP), against(OURS, ON_THE_LOOP, 0.0)
    ),
    Row(
        "threads-block",
        "`def` stages that block for 10 ms, 50 at once, against that bare loop",
        ">= 0.9",
        BLOCKING,
        against(*BLOCKING, 0.9),
    ),
    Row(
        "processes",
        "`cpu=True` stages of some ten milliseconds, against a bare loop with a ProcessPoolExecutor",
        ">= 0.8",
        COMPUTING,
        against(*COMPUTING, 0.8),
    ),
]

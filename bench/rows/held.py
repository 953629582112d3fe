"""What a snapshot that somebody holds costs: rate, pick-up, recovery, buffers."""

from __future__ import annotations

from collections.abc import Callable

from bench.model import NOTHING, Book, Measured, Row, Run, at_least, at_most

HELD = Run("holdfast", "held", 1_000_000, 20_000, once=True, timeout_s=3_600)
STEADY = Run("holdfast", "steady", 600, 10, once=True, timeout_s=3_600)
RECOVERY_S_MAX = 10.0


def _medians(book: Book, *names: str) -> list[float]:
    return [book.spread("holdfast", "held", name).median for name in names]


def rate(book: Book) -> Measured:
    if not book.has("holdfast", "held"):
        return NOTHING
    jobs, held, free = _medians(book, "jobs", "held_per_s", "free_per_s")
    held_us, free_us = _medians(book, "held_database_us", "free_database_us")
    more = f": {jobs:,.0f} jobs, {held:,.0f}/s against {free:,.0f}/s, database {held_us:.0f} us against {free_us:.0f}"
    return at_least(book.spread("holdfast", "held", "ratio"), 0.9, more)


def last_third(book: Book) -> Measured:
    if not book.has("holdfast", "held"):
        return NOTHING
    return at_least(book.spread("holdfast", "held", "last_ratio"), 0.9)


def pickup(book: Book) -> Measured:
    if not book.has("holdfast", "held"):
        return NOTHING
    before, held, free = _medians(book, "before_p99_ms", "held_p99_ms", "free_p99_ms")
    more = f": p99 {held:.1f} ms, {before:.1f} before; {free:.1f} at the same time without a snapshot"
    return at_most(book.spread("holdfast", "held", "pickup_ratio"), 1.5, more)


def recovery(task: str) -> Callable[[Book], Measured]:
    def judge(book: Book) -> Measured:
        if not book.has("holdfast", task):
            return NOTHING
        seconds = book.spread("holdfast", task, "recovery_s")
        text = f"{seconds.median:.1f} s ({seconds.low:.1f} to {seconds.high:.1f})"
        return Measured(text, seconds.median <= RECOVERY_S_MAX, seconds.median, seconds.low, seconds.high)

    return judge


def buffers(book: Book) -> Measured:
    if not book.has("holdfast", "held"):
        return NOTHING
    held, free, bottom = _medians(book, "held_buffers", "free_buffers", "bottom_buffers")
    more = f": {held:,.0f} against {free:,.0f}; {bottom:,.0f} from the bottom"
    return at_most(book.spread("holdfast", "held", "buffers_ratio"), 1.5, more)


def steady_pickup(book: Book) -> Measured:
    if not book.has("holdfast", "steady"):
        return NOTHING
    rates = [book.spread("holdfast", "steady", name).median for name in ("before_per_s", "held_per_s")]
    before, held, p50, held_p50, jobs = (
        book.spread("holdfast", "steady", name).median
        for name in ("before_p99_ms", "held_p99_ms", "before_p50_ms", "held_p50_ms", "jobs")
    )
    more = f": p99 {held:.1f} ms against {before:.1f}, p50 {held_p50:.1f} against {p50:.1f}, {jobs:,.0f} jobs"
    more += f", {rates[0]:,.0f}/s and {rates[1]:,.0f}/s"
    return at_most(book.spread("holdfast", "steady", "p99_ratio"), 1.5, more)


def steady_cpu(book: Book) -> Measured:
    if not book.has("holdfast", "steady"):
        return NOTHING
    before, held = (book.spread("holdfast", "steady", f"{name}_database_us").median for name in ("before", "held"))
    return at_most(book.spread("holdfast", "steady", "database_ratio"), 1.5, f": {held:.0f} us against {before:.0f}")


ROWS = [
    Row("held", "a burst of jobs behind a held snapshot", ">= 0.9 of the same without", (HELD,), rate),
    Row("held-flat", "the last third of it", ">= 0.9 of the same without", (HELD,), last_third),
    Row("held-pickup", "pick-up p99 behind it", "<= 1.5 of before", (HELD,), pickup),
    Row("held-recovery", "after the release, to 0.9 of the rate without", "<= 10 s", (HELD,), recovery("held")),
    Row("held-buffers", "buffers of a claim of fifty, behind it", "<= 1.5 of without", (HELD,), buffers),
    Row(
        "steady",
        "800 jobs a second: pick-up p99 behind a held snapshot",
        "<= 1.5 of before",
        (STEADY,),
        steady_pickup,
    ),
    Row("steady-cpu", "the same: the database's CPU a job", "<= 1.5 of before", (STEADY,), steady_cpu),
    Row(
        "steady-recovery",
        "the same: after the release, to a usual second's p99",
        "<= 10 s",
        (STEADY,),
        recovery("steady"),
    ),
]

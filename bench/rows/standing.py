"""Rows about what stays flat: claims beside much else, the embedded database, memory, history."""

from __future__ import annotations

from bench.arithmetic import ratios, spread
from bench.model import NOTHING, Book, Measured, Row, Run, at_most, rate_ratio

DEPTH = Run("holdfast", "depth", 1_000_000, 50_000, timeout_s=1_800)
EMBEDDED = (Run("holdfast", "embedded", 20_000, 8_000), Run("floor", "embedded", 20_000, 8_000))
IDLE = Run("holdfast", "idle", 0, 0)
GROWTH = Run("holdfast", "growth", 1_000_000, 40_000, timeout_s=1_800)
QUERYING = Run("holdfast", "querying", 1_000_000, 20_000, once=True, timeout_s=1_800)
QUERY_MS_MAX = 200.0
LISTS_FLAT = 1.5
HISTORY = Run("holdfast", "history", 10_000_000, 100_000, timeout_s=3_600)
LOOKS = ("list", "state", "owner", "key", "error", "id", "range", "oldest", "deadline", "failures", "field", "text")
CASES = {
    "queued": "a million queued",
    "finished": "a million finished",
    "future": "200,000 dated into the future",
    "held": "200,000 held by an open breaker",
    "priorities": "200,000 over four priorities",
}
FLAT = 1.3


def flat(unit: str) -> Row:
    """The claim's cost in each case against that with a thousand queued and nothing else."""

    def judge(book: Book) -> Measured:
        if not book.has("holdfast", "depth"):
            return NOTHING
        first = book.spread("holdfast", "depth", f"few_{unit}").median
        found = {case: book.spread("holdfast", "depth", f"{case}_{unit}").median / first for case in CASES}
        worst = max(found, key=lambda case: found[case])
        each = ", ".join(f"{case} {ratio:.2f}" for case, ratio in found.items())
        size = book.spread("holdfast", "depth", "jobs").median
        text = f"at most {found[worst]:.2f} x of {first:,.1f}: {each} (a million was {size:,.0f})"
        return Measured(text, found[worst] <= FLAT, found[worst], min(found.values()), max(found.values()))

    what = {"ms": "by time", "buffers": "by buffers touched"}[unit]
    return Row(
        f"depth-{unit}", f"a claim of 50 beside {', '.join(CASES.values())}, {what}", "<= 1.3 x", (DEPTH,), judge
    )


def queries(book: Book) -> Measured:
    """The dearest look of an operator, by the CPU of process and database."""
    if not book.has("holdfast", "querying"):
        return NOTHING
    jobs, worst = (book.spread("holdfast", "querying", name).median for name in ("jobs", "worst_ms"))
    each = ", ".join(f"{name} {book.spread('holdfast', 'querying', f'{name}_ms').median:.0f}" for name in LOOKS)
    return Measured(f"at most {worst:.0f} ms over {jobs:,.0f} jobs: {each}", worst <= QUERY_MS_MAX, worst)


def lists(book: Book) -> Measured:
    if not book.has("holdfast", "querying"):
        return NOTHING
    few, many = (book.spread("holdfast", "querying", name).median for name in ("few_list_ms", "list_ms"))
    return at_most(book.spread("holdfast", "querying", "list_ratio"), LISTS_FLAT, f": {many:.1f} ms against {few:.1f}")


def idle(book: Book) -> Measured:
    if not book.has("holdfast", "idle"):
        return NOTHING
    found = book.spread("holdfast", "idle", "rss_mb").median
    return Measured(f"{found:.0f} MB", found <= 60.0, found)


def growth(book: Book) -> Measured:
    """A rise within three standard errors is noise; so is less than 2 MB in a million jobs."""
    if not book.has("holdfast", "growth"):
        return NOTHING
    rise, error, last, jobs = (
        book.spread("holdfast", "growth", name).median for name in ("mb_per_million", "error_mb", "last_mb", "jobs")
    )
    text = f"{rise:+.2f} MB per million (error {error:.2f}) at {last:.0f} MB, over {jobs:,.0f} jobs"
    return Measured(text, rise <= max(2.0, 3 * error), rise)


def history(book: Book) -> Measured:
    if not book.has("holdfast", "history"):
        return NOTHING
    found = spread(
        ratios(book.of("holdfast", "history", "large_p99_ms"), book.of("holdfast", "history", "small_p99_ms"))
    )
    large, jobs = book.spread("holdfast", "history", "large_p99_ms").median, book.of("holdfast", "history", "jobs")[0]
    return at_most(found, FLAT, f": p99 {large:.1f} ms beside {jobs:,.0f} finished")


def prune(book: Book) -> Measured:
    if not book.has("holdfast", "history"):
        return NOTHING
    longest = book.spread("holdfast", "history", "lock_max_ms").high
    usual = book.spread("holdfast", "history", "lock_p50_ms").median
    rate = book.spread("holdfast", "history", "pruned_per_s").median
    text = f"{longest:.0f} ms at the longest, {usual:.0f} ms usually, {rate:,.0f} jobs pruned per second"
    return Measured(text, longest <= 100.0, longest)


ROWS = [
    flat("ms"),
    flat("buffers"),
    Row(
        "embedded",
        "embedded SQLite, accepted to settled, one process",
        ">= 0.65 of a raw batched loop",
        EMBEDDED,
        rate_ratio(("holdfast", "embedded"), ("floor", "embedded"), 0.65),
    ),
    Row("query", "the dearest look of an operator at a million jobs, by CPU", "<= 200 ms", (QUERYING,), queries),
    Row("lists", "a list of a million jobs against one of a thousand, by CPU", "<= 1.5 x", (QUERYING,), lists),
    Row("idle", "a worker's memory at rest, without the systems", "<= 60 MB", (IDLE,), idle),
    Row("growth", "a worker's memory over very many jobs", "no growth beyond noise", (GROWTH,), growth),
    Row("history", "claim p99 with ten million finished jobs", "<= 1.3 x that without", (HISTORY,), history),
    Row("prune", "pruning beside ten million finished jobs: a lock", "<= 100 ms", (HISTORY,), prune),
]

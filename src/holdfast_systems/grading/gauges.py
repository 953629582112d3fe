"""How the main app's submissions are at the moment of a scrape, read from its database: any process tells the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from holdfast.kit import Kernel
from holdfast.kit.tables import Tx, load_statements
from holdfast.system import Gauge, GaugeValue
from holdfast_systems.grading import reasons
from holdfast_systems.grading.transitions import PRIORITIES

sql = load_statements(Path(__file__).with_suffix(".sql"))

HOUR_MS = 3_600_000
SUBMISSIONS = Gauge("submissions", "Submissions that have not ended, by status", ("status",))
OLDEST = Gauge("submissions_oldest_age_seconds", "Age of the oldest attempt in this status", ("status",))
ENDED = Gauge("submissions_ended_last_hour", "Submissions that ended within the last hour", ("status", "reason"))
BACKLOG = Gauge("review_backlog", "Submissions that wait for an instructor", ("priority",))
BACKLOG_AGE = Gauge("review_oldest_age_seconds", "Age of the oldest that waits for an instructor", ("priority",))
SILENCE = Gauge("grading_silence_seconds", "How long requests wait while no callback comes; 0 if none waits", ())
GAUGES = (SUBMISSIONS, OLDEST, ENDED, BACKLOG, BACKLOG_AGE, SILENCE)


async def read_gauges(kernel: Kernel) -> Sequence[GaugeValue]:
    """All of them, in one reading. What is zero is said, so that an alert sees it fall."""
    now = kernel.now()
    async with kernel.store.reading() as tx:
        return [*await _live(tx, now), *await _ended(tx, now), *await _in_review(tx, now)]


async def _live(tx: Tx, now: int) -> list[GaugeValue]:
    rows = {row["status"]: row for row in await tx.rows(sql.live)}
    values: list[GaugeValue] = []
    for status in ("PENDING", "PROCESSING"):
        row = rows.get(status)
        values.append((SUBMISSIONS, (status,), row["submissions"] if row else 0))
        values.append((OLDEST, (status,), (now - row["oldest_at"]) / 1_000 if row else 0.0))
    last = (await tx.rows(sql.last_callback))[0]["at"] or 0
    waiting = rows.get("PENDING")
    # What is PENDING was asked for and has heard nothing; a service that lives would have told somebody something.
    silent_ms = now - max(last, waiting["oldest_at"]) if waiting else 0
    return [*values, (SILENCE, (), max(0, silent_ms) / 1_000)]


async def _ended(tx: Tx, now: int) -> list[GaugeValue]:
    counts: Counter[tuple[str, str]] = Counter({("COMPLETED", ""): 0, ("FAILED", "TIMEOUT"): 0})
    for row in await tx.rows(sql.ended, since=now - HOUR_MS):
        counts[row["status"], reasons.label(row["failure_reason"])] += row["submissions"]
    return [(ENDED, labels, count) for labels, count in sorted(counts.items())]


async def _in_review(tx: Tx, now: int) -> list[GaugeValue]:
    rows = {row["priority_rank"]: row for row in await tx.rows(sql.in_review)}
    values: list[GaugeValue] = []
    for rank, priority in enumerate(PRIORITIES):
        row = rows.get(rank)
        values.append((BACKLOG, (priority,), row["submissions"] if row else 0))
        values.append((BACKLOG_AGE, (priority,), (now - row["oldest_at"]) / 1_000 if row else 0.0))
    waiting = sum(row["submissions"] for row in rows.values())
    return [*values, (SUBMISSIONS, ("REVIEW_REQUIRED",), waiting)]

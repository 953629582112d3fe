"""The last hour of each system, for the console's charts: what is stored by minute, and what only a look can tell.

Throughput, errors, latencies and gates are read from the rows. How many jobs waited a while ago stands in no row, so
each web process looks every few seconds and keeps an hour of what it saw.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.kernel.questions.explain import iso
from holdfast.operator.desk import Desk
from holdfast.operator.snapshot import BreakerView, Snapshot, snapshot
from holdfast.stores.seam import Row, Tx
from holdfast.system import OpenSystem
from holdfast.tables import ops

LOOK_EVERY_S = 10.0
LOOKS_KEPT = 360
LOOKS_TO_JUDGE = 30
MINUTE_MS = 60_000
DONE, FAILED = ("succeeded",), ("retried", "lost", "buried", "expired")
STAGES = (*DONE, "advanced")
ENDED = (*DONE, *FAILED, "advanced")
DIED = ("buried", "expired")


@dataclass
class Looks:
    """What this process saw of each system, oldest first."""

    kept: dict[str, deque[dict[str, Any]]] = field(default_factory=dict)

    def add(self, system: str, view: Snapshot) -> None:
        """Keep a look; one that follows another closely takes its place, so that a busy console costs no memory."""
        seen = self.kept.setdefault(system, deque(maxlen=LOOKS_KEPT))
        if len(seen) > 1 and view.now - seen[-2]["at"] < LOOK_EVERY_S * 1_000:
            seen.pop()
        seen.append({"at": view.now, **_numbers(view)})

    def of(self, system: str, since: int) -> list[dict[str, Any]]:
        return [{**look, "at": iso(look["at"])} for look in self.kept.get(system, ()) if look["at"] >= since]

    def usual_age_s(self, system: str) -> float | None:
        """How old the oldest due job mostly was, by the looks of the last hour; None with too few of them to tell."""
        ages = sorted(look["oldest_age_s"] for look in self.kept.get(system, ()))
        return ages[len(ages) // 2] if len(ages) >= LOOKS_TO_JUDGE else None


def _numbers(view: Snapshot) -> dict[str, Any]:
    depth: dict[str, int] = defaultdict(int)
    for lane in view.lanes:
        depth[lane.state] += lane.jobs
    due = [lane.oldest_age_s for lane in view.lanes if lane.state in ("queued", "parked")]
    return {
        "queued": depth["queued"],
        "held": depth["parked"],
        "running": depth["processing"],
        "waiting": depth["waiting"],
        "oldest_age_s": max(due, default=0.0),
        "outbox_pending": view.outbox_pending,
    }


async def show_history(desk: Desk, looks: Looks, minutes: int) -> dict[str, Any]:
    """The last minutes of each system: depth, age, throughput, error rate, latency by provider, gates of breakers."""
    return {"items": [await _read_history(system, looks, minutes) for system in desk.systems]}


async def _read_history(system: OpenSystem, looks: Looks, minutes: int) -> dict[str, Any]:
    """One system's last minutes. The present moment is always among them."""
    view = await snapshot(system.kernel)
    looks.add(system.name, view)
    since = view.now - minutes * MINUTE_MS
    async with system.kernel.store.reading() as tx:
        ends = await ops.ends_by_minute(tx, since)
        providers = [await _provider(tx, breaker, since) for breaker in view.breakers]
    return {
        "system": system.name,
        "title": system.system.title,
        "now": iso(view.now),
        "since": iso(since),
        "looks": looks.of(system.name, since),
        "minutes": _minutes(ends, since, view.now),
        "providers": providers,
    }


def _minutes(ends: Sequence[Row], since: int, now: int) -> list[dict[str, Any]]:
    """Every minute has its entry, so that a quiet one is a zero and not a gap."""
    found: dict[int, dict[str, int]] = defaultdict(dict)
    for row in ends:
        found[int(row["minute"])][row["type"]] = int(row["attempts"])
    return [_minute(minute, found[minute]) for minute in range(since // MINUTE_MS + 1, now // MINUTE_MS + 1)]


def _minute(minute: int, types: dict[str, int]) -> dict[str, Any]:
    ended, failed = _sum(types, ENDED), _sum(types, FAILED)
    return {
        "at": iso(minute * MINUTE_MS),
        "done": _sum(types, DONE),
        "stages": _sum(types, STAGES),
        "died": _sum(types, DIED),
        "failed_attempts": failed,
        "error_rate": failed / ended if ended else 0.0,
    }


def _sum(types: dict[str, int], wanted: Sequence[str]) -> int:
    return sum(types.get(name, 0) for name in wanted)


async def _provider(tx: Tx, breaker: BreakerView, since: int) -> dict[str, Any]:
    by_minute: dict[int, list[Row]] = defaultdict(list)
    for row in await ops.calls_since(tx, breaker.name, since):
        by_minute[row["started_at"] // MINUTE_MS].append(row)
    gates = await ops.gates_since(tx, breaker.name, since)
    return {
        "name": breaker.name,
        "gate": breaker.state.gate,
        "latencies": [_latency(minute, by_minute[minute]) for minute in sorted(by_minute)],
        "gates": [{"at": iso(max(row["at"], since)), "gate": row["gate"], "reason": row["reason"]} for row in gates],
    }


def _latency(minute: int, calls: Sequence[Row]) -> dict[str, Any]:
    took = sorted(row["duration_ms"] for row in calls)
    return {
        "at": iso(minute * MINUTE_MS),
        "calls": len(took),
        "failed": sum(row["outcome"] != "ok" for row in calls),
        "p50_ms": took[(len(took) - 1) // 2],
        "p95_ms": took[-(-len(took) * 95 // 100) - 1],
    }

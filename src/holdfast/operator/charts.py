"""Charts at the desk: the past of each system from its roll-ups, for any stretch of up to thirty days.

Everything is read from the database, so that every web process draws the same. A chart has at most `POINTS_MAX` points;
long stretches are drawn from hours. What has not been counted yet is not there, and `counted_until` says so.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.breaker import Gate
from holdfast.errors import InvalidInput
from holdfast.kernel.questions.explain import iso
from holdfast.operator.desk import Desk
from holdfast.operator.rollup import WAITING
from holdfast.stores.seam import Tx
from holdfast.system import OpenSystem
from holdfast.tables import incidents, ops, rollups
from holdfast.tables.providers import GateMove
from holdfast.tables.rollups import EVENTS, HOUR_MS, MINUTE_MS, Cell

POINTS_MAX = 240
DAY_MS = 24 * HOUR_MS
MINUTES_MAX = 30 * 24 * 60
FROM_HOURS_MS = 2 * DAY_MS
"""Longer stretches are read from hours."""
FAILED = frozenset({"retried", "lost", "buried", "expired"})
DIED = frozenset({"buried", "expired"})
STEPS = frozenset({"succeeded", "advanced"})
ERRORS_SHOWN, OWNERS_SHOWN, MARKS_MAX, CHANGES_MAX = 12, 10, 200, 2_000


@dataclass(frozen=True, slots=True)
class Stretch:
    """From when to when, in steps of what, read from cells of which span."""

    since: int
    until: int
    step: int
    span: int

    @property
    def points(self) -> range:
        return range(self.since, self.until, self.step)


def choose_stretch(now: int, minutes: int, until: int | None = None) -> Stretch:
    """A stretch that ends at a moment (now, if none is given), in steps of which at most `POINTS_MAX` fit."""
    if not 1 <= minutes <= MINUTES_MAX:
        raise InvalidInput(f"A chart is of 1 to {MINUTES_MAX:,} minutes.")
    long_ms = minutes * MINUTE_MS
    span = HOUR_MS if long_ms > FROM_HOURS_MS else MINUTE_MS
    step = -(-long_ms // (span * POINTS_MAX)) * span
    end = (min(now, now if until is None else until) // step + 1) * step
    return Stretch(end - -(-long_ms // step) * step, end, step, span)


@dataclass(frozen=True, slots=True)
class ChartFilter:
    """Of which jobs: all that is given must fit. A stage belongs to a kind."""

    kind: str | None = None
    stage: str | None = None
    queue: str | None = None
    provider: str | None = None
    owner: str | None = None


async def read_charts(
    desk: Desk, minutes: int = 60, until: int | None = None, which: ChartFilter | None = None
) -> dict[str, Any]:
    """The last minutes of each system, or those before a moment: throughput of jobs and stages by outcome, waiting and
    running times, failures by class, depth and age, calls and their cost, and what happened meanwhile."""
    items = []
    for system in desk.systems:
        stretch = choose_stretch(system.kernel.now(), minutes, until)
        items.append(await _read_system(system, stretch, which or ChartFilter()))
    return {"items": items}


async def _read_system(system: OpenSystem, stretch: Stretch, which: ChartFilter) -> dict[str, Any]:
    async with system.kernel.store.reading() as tx:
        position = await rollups.read_position(tx, EVENTS)
        cells = {
            "stage": await _read(tx, stretch, "stage", kind=which.kind, part=which.stage),
            "job": await _read(tx, stretch, "job", kind=which.kind, part=which.queue),
            "error": await _read(tx, stretch, "error", kind=which.kind, part=which.stage),
            "call": await _read(tx, stretch, "call", kind=which.kind, name=which.provider),
            "owner": await _read(tx, stretch, "owner", name=which.owner),
            "spent": await _read(tx, stretch, "spent", name=which.owner),
            "depth": _of_queue(await _read(tx, stretch, "depth"), which.queue),
        }
        marks = await _read_marks(tx, stretch)
    return {
        "system": system.name,
        "title": system.system.title,
        "runs_jobs": bool(system.kernel.registry.kinds),
        "since": iso(stretch.since),
        "until": iso(stretch.until),
        "now": iso(system.kernel.now()),
        "step_s": stretch.step // 1_000,
        "counted_until": None if position is None else iso(position.at),
        "points": _points(stretch, cells),
        "errors": _top(cells["error"], ERRORS_SHOWN),
        "stages": _stages(cells["stage"]),
        "providers": _providers(stretch, cells["call"]),
        "owners": _owners(stretch, [*cells["owner"], *cells["spent"]]),
        "marks": marks,
    }


async def _read(tx: Tx, stretch: Stretch, series: str, **which: str | None) -> list[Cell]:
    """Long stretches from hours, and what of the last hours is not folded yet from minutes."""
    found = await rollups.between(
        tx,
        stretch.span,
        stretch.since,
        stretch.until,
        stretch.step,
        [series],
        **which,
    )
    if stretch.span == MINUTE_MS:
        return found
    hours = await rollups.read_position(tx, rollups.HOURS)
    rest = max(stretch.since, 0 if hours is None else hours.at + HOUR_MS)
    return found + await rollups.between(
        tx,
        MINUTE_MS,
        rest,
        stretch.until,
        stretch.step,
        [series],
        **which,
    )


def _points(stretch: Stretch, cells: Mapping[str, Sequence[Cell]]) -> list[dict[str, Any]]:
    """Every step has its point, so that a quiet one is a zero and not a gap; of how much waited, nothing is known where
    nobody looked."""
    by_step = {series: _by_step(cells[series]) for series in ("stage", "job", "depth", "call")}
    return [_point(at, {series: steps.get(at, ()) for series, steps in by_step.items()}) for at in stretch.points]


def _point(at: int, cells: Mapping[str, Sequence[Cell]]) -> dict[str, Any]:
    stages, jobs = cells["stage"], cells["job"]
    ended = _sum(stages, STEPS | FAILED)
    return {
        "at": iso(at),
        "jobs": _sum(jobs, {"succeeded"}),
        "died": _sum(jobs, DIED),
        "cancelled": _sum(jobs, {"cancelled"}),
        "stages": _sum(stages, STEPS),
        "failed": _sum(stages, FAILED),
        "error_rate": _sum(stages, FAILED) / ended if ended else 0.0,
        "waited_ms": percentiles(cell for cell in jobs if cell.result == "succeeded"),
        "ran_ms": percentiles(cell for cell in stages if cell.result in STEPS),
        "cost_micros": sum(cell.sum for cell in cells["call"]),
        **_depth(cells["depth"]),
    }


def _of_queue(cells: Sequence[Cell], queue: str | None) -> list[Cell]:
    """Those of a queue, and those of no queue: every look writes of these, whatever there is."""
    return [cell for cell in cells if queue is None or cell.name in ("", queue)]


def _depth(cells: Sequence[Cell]) -> dict[str, float | None]:
    """How much there was. In a step at which nobody looked that is not known: a zero would call it well."""
    if not cells:
        return dict.fromkeys(("waiting", "held", "running", "outbox", "oldest_age_s"))
    lanes = {
        part: sum(cell.number for cell in cells if cell.part == part)
        for part in (*WAITING, "all", "processing", "outbox")
    }
    return {
        "waiting": lanes["all"] or sum(lanes[part] for part in WAITING),  # the parts of what an older release wrote
        "held": lanes["parked"] + lanes["paused"],
        "running": lanes["processing"],
        "outbox": lanes["outbox"],
        "oldest_age_s": max((cell.sum for cell in cells if cell.part in WAITING), default=0) / 1_000,
    }


def percentiles(cells: Iterable[Cell]) -> dict[str, int] | None:
    """The bounds below which half, 95 and 99 of a hundred lie, by their buckets; None of nothing."""
    buckets: dict[int, int] = defaultdict(int)
    for cell in cells:
        buckets[cell.bucket] += cell.number
    total = sum(buckets.values())
    if not total:
        return None
    found: dict[str, int] = {}
    for name, share in (("p50", 50), ("p95", 95), ("p99", 99)):
        below = 0
        for bound in sorted(buckets):
            below += buckets[bound]
            if below * 100 >= total * share:
                found[name] = bound
                break
    return found


def _providers(stretch: Stretch, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    by_name: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        by_name[cell.name].append(cell)
    return [
        {
            "name": name,
            "calls": sum(cell.number for cell in own),
            "cost_micros": sum(cell.sum for cell in own),
            "points": [_calls(at, steps.get(at, ())) for at in stretch.points],
        }
        for name, own in sorted(by_name.items())
        for steps in [_by_step(own)]
    ]


def _calls(at: int, cells: Sequence[Cell]) -> dict[str, Any]:
    return {
        "at": iso(at),
        "calls": sum(cell.number for cell in cells),
        "failed": sum(cell.number for cell in cells if cell.result != "ok"),
        "took_ms": percentiles(cells),
    }


def _owners(stretch: Stretch, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Whose jobs came and how they ended: the largest first, then all others together under no name."""
    numbers: Counter[str] = Counter()
    for cell in cells:
        if cell.name and cell.series == "owner":
            numbers[cell.name] += cell.number
    shown = [name for name, _ in numbers.most_common(OWNERS_SHOWN)]
    by_name: dict[str, list[Cell]] = {name: [] for name in [*shown, ""]}
    for cell in cells:
        by_name[cell.name if cell.name in by_name else ""].append(cell)
    return [
        {
            "name": name or None,
            **_owned(own),
            "points": [{"at": iso(at), **_owned(steps.get(at, ()))} for at in stretch.points],
        }
        for name, own in by_name.items()
        if own
        for steps in [_by_step(own)]
    ]


def _owned(cells: Sequence[Cell]) -> dict[str, Any]:
    calls = [cell for cell in cells if cell.series == "spent"]
    return {
        "submitted": _sum(cells, {"submitted"}),
        "done": _sum(cells, {"succeeded"}),
        "failed": _sum(cells, FAILED),
        "died": _sum(cells, DIED),
        "took_ms": percentiles(cell for cell in cells if cell.result == "succeeded"),
        "calls": sum(cell.number for cell in calls),
        "cost_micros": sum(cell.sum for cell in calls),
    }


def _stages(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """What each stage has done in all: the busiest first."""
    by_stage: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        by_stage[cell.name, cell.part].append(cell)
    rows = [
        {
            "kind": kind,
            "stage": stage,
            "done": _sum(own, STEPS),
            "failed": _sum(own, FAILED),
            "ran_ms": percentiles(cell for cell in own if cell.result in STEPS),
        }
        for (kind, stage), own in by_stage.items()
    ]
    return sorted(rows, key=lambda item: (-item["done"] - item["failed"], item["kind"], item["stage"]))


def _top(cells: Sequence[Cell], most: int) -> list[dict[str, Any]]:
    numbers: dict[str, int] = defaultdict(int)
    for cell in cells:
        numbers[cell.result] += cell.number
    best = sorted(numbers.items(), key=lambda entry: (-entry[1], entry[0]))[:most]
    return [{"name": name, "number": number} for name, number in best]


async def _read_marks(tx: Tx, stretch: Stretch) -> list[dict[str, Any]]:
    """What happened meanwhile: workers of a release that were started, gates of breakers, incidents."""
    marks: list[tuple[int, str, str, str]] = []
    for cell in await rollups.between(tx, MINUTE_MS, stretch.since, stretch.until, MINUTE_MS, ["deploy"]):
        words = f"{cell.number} worker{'' if cell.number == 1 else 's'} of {cell.name or 'an older release'} started"
        marks.append((cell.at, "deploy", words, "#machines"))
    for row in outages(await ops.gate_changes(tx, stretch.since, stretch.until, CHANGES_MAX)):
        why = f": {row.reason}" if row.reason else ""
        marks.append((row.at, "breaker", f"{row.name} {row.gate.replace('_', ' ')}{why}", "#breakers"))
    for begun in await incidents.begun_between(tx, stretch.since, stretch.until, MARKS_MAX):
        marks.append((begun.began_at, "incident", begun.sentence, f"#incident/{begun.id}"))
    return [{"at": iso(at), "sort": sort, "words": words, "href": href} for at, sort, words, href in sorted(marks)]


def outages(changes: Sequence[GateMove]) -> Iterator[GateMove]:
    """Where a breaker opened first and where it closed; the trials between the two are no news."""
    gates: dict[str, str] = {}
    for row in changes:
        if row.gate != Gate.HALF_OPEN and gates.get(row.name, Gate.CLOSED) != row.gate:
            gates[row.name] = row.gate
            yield row


def _by_step(cells: Sequence[Cell]) -> dict[int, list[Cell]]:
    found: dict[int, list[Cell]] = defaultdict(list)
    for cell in cells:
        found[cell.at].append(cell)
    return found


def _sum(cells: Iterable[Cell], results: Iterable[str]) -> int:
    wanted = frozenset(results)
    return sum(cell.number for cell in cells if cell.result in wanted)

"""Charts: what each figure is counted from."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import InvalidInput
from holdfast.operator.charts import _of_queue, _point, _providers, _stages, _top, choose_stretch, percentiles
from holdfast.tables.rollups import HOUR_MS, MINUTE_MS, Cell

pytestmark = pytest.mark.spec("K17")
AT = 1_767_225_600_000
NONE = {"stage": (), "job": (), "depth": (), "call": ()}


def cell(
    series: str, result: str, number: int, *, part: str = "", name: str = "k", bucket: int = 0, total: int = 0
) -> Cell:
    return Cell(AT, series, name, part, result, bucket, number, total)


def test_a_point_counts_every_outcome_where_it_belongs() -> None:
    outcomes = ("succeeded", "advanced", "retried", "lost", "buried", "expired", "cancelled", "held")
    stages = [cell("stage", result, 10**place, bucket=place) for place, result in enumerate(outcomes)]
    jobs = [cell("job", result, 2 * 10**place, bucket=place) for place, result in enumerate(outcomes)]
    lanes = ("queued", "parked", "paused", "processing", "outbox", "oldest")
    depth = [cell("depth", "", 10**place, part=part, total=place * 1_500) for place, part in enumerate(lanes)]
    calls = [cell("call", "ok", 1, total=70), cell("call", "failed", 1, total=8)]
    point = _point(AT, {"stage": stages, "job": jobs, "depth": depth, "call": calls})
    assert point == {
        "at": "2026-01-01T00:00:00.000Z",
        "jobs": 2,
        "died": 220_000,
        "cancelled": 2_000_000,
        "stages": 11,
        "failed": 111_100,
        "error_rate": 111_100 / 111_111,
        "waited_ms": {"p50": 0, "p95": 0, "p99": 0},
        "ran_ms": {"p50": 1, "p95": 1, "p99": 1},
        "cost_micros": 78,
        "waiting": 111,
        "held": 110,
        "running": 1_000,
        "outbox": 10_000,
        "oldest_age_s": 3.0,
    }


def test_a_job_that_went_from_lane_to_lane_in_a_minute_waits_once() -> None:
    depth = [cell("depth", "", number, part=part) for part, number in (("queued", 40), ("parked", 60), ("all", 60))]
    point = _point(AT, {**NONE, "depth": depth})
    assert (point["waiting"], point["held"]) == (60, 60)


def test_of_a_minute_at_which_nobody_looked_it_is_not_said_that_nothing_waited() -> None:
    point = _point(AT, NONE)
    unknown = {name for name, value in point.items() if value is None} - {"waited_ms", "ran_ms"}
    assert unknown == {"waiting", "held", "running", "outbox", "oldest_age_s"}


def test_a_look_counts_for_a_queue_that_was_empty_then() -> None:
    lanes = [cell("depth", "", 7, part="queued", name="k"), cell("depth", "", 0, part="outbox", name="")]
    depth = {queue: _point(AT, {**NONE, "depth": _of_queue(lanes, queue)})["waiting"] for queue in ("k", "other", None)}
    assert depth == {"k": 7, "other": 0, None: 7}


def test_a_quiet_minute_is_a_zero_and_no_gap() -> None:
    looked = [cell("depth", "", 0, part="outbox", name="")]
    point = _point(AT, {**NONE, "depth": looked})
    assert {value for name, value in point.items() if name not in ("at", "waited_ms", "ran_ms")} == {0}
    assert point["waited_ms"] is None and point["ran_ms"] is None


@pytest.mark.parametrize(
    ("buckets", "expected"),
    [
        ({10: 50, 20: 45, 30: 4, 40: 1}, {"p50": 10, "p95": 20, "p99": 30}),
        ({10: 49, 20: 45, 30: 4, 40: 2}, {"p50": 20, "p95": 30, "p99": 40}),
        ({7: 1}, {"p50": 7, "p95": 7, "p99": 7}),
        ({}, None),
    ],
)
def test_percentiles_are_of_the_hundred_and_not_of_the_buckets(buckets: dict[int, int], expected: Any) -> None:
    cells = [cell("job", "succeeded", number, bucket=bound) for bound, number in reversed(buckets.items())]
    assert percentiles(cells) == expected


def test_providers_come_by_name_with_their_calls_failures_and_cost() -> None:
    stretch = choose_stretch(AT, 2)
    cells = [
        cell("call", "ok", 3, name="sms", bucket=5, total=30),
        cell("call", "failed", 2, name="sms", bucket=9),
        cell("call", "ambiguous", 1, name="llm", bucket=7, total=4),
    ]
    llm, sms = _providers(stretch, cells)
    assert (llm["name"], llm["calls"], llm["cost_micros"]) == ("llm", 1, 4)
    assert (sms["name"], sms["calls"], sms["cost_micros"]) == ("sms", 5, 30)
    assert sms["points"] == [
        {"at": "2025-12-31T23:59:00.000Z", "calls": 0, "failed": 0, "took_ms": None},
        {"at": "2026-01-01T00:00:00.000Z", "calls": 5, "failed": 2, "took_ms": {"p50": 5, "p95": 9, "p99": 9}},
    ]


def test_the_busiest_stage_and_the_commonest_error_come_first() -> None:
    cells = [
        cell("stage", "succeeded", 1, part="b", bucket=3),
        cell("stage", "succeeded", 1, part="a", bucket=4),
        cell("stage", "retried", 5, part="c", bucket=9),
        cell("stage", "held", 9, part="d"),
    ]
    rows = _stages(cells)
    assert [(row["stage"], row["done"], row["failed"]) for row in rows] == [
        ("c", 0, 5), ("a", 1, 0), ("b", 1, 0), ("d", 0, 0),
    ]  # fmt: skip
    assert [row["ran_ms"] and row["ran_ms"]["p50"] for row in rows] == [None, 4, 3, None]
    errors = [cell("error", name, number) for name, number in (("B", 2), ("A", 2), ("C", 3), ("D", 1), ("D", 3))]
    assert _top(errors, 3) == [{"name": "D", "number": 4}, {"name": "C", "number": 3}, {"name": "A", "number": 2}]


@pytest.mark.parametrize(
    ("minutes", "until", "stretch"),
    [
        (1, None, (AT, AT + MINUTE_MS, MINUTE_MS, MINUTE_MS)),
        (240, None, (AT - 239 * MINUTE_MS, AT + MINUTE_MS, MINUTE_MS, MINUTE_MS)),
        (241, None, (AT - 240 * MINUTE_MS, AT + 2 * MINUTE_MS, 2 * MINUTE_MS, MINUTE_MS)),
        (60, AT - HOUR_MS, (AT - HOUR_MS - 59 * MINUTE_MS, AT - HOUR_MS + MINUTE_MS, MINUTE_MS, MINUTE_MS)),
        (60, AT + HOUR_MS, (AT - 59 * MINUTE_MS, AT + MINUTE_MS, MINUTE_MS, MINUTE_MS)),
        (2 * 24 * 60, None, (AT - 47 * HOUR_MS - 48 * MINUTE_MS, AT + 12 * MINUTE_MS, 12 * MINUTE_MS, MINUTE_MS)),
        (2 * 24 * 60 + 1, None, (AT - 48 * HOUR_MS, AT + HOUR_MS, HOUR_MS, HOUR_MS)),
    ],
)
def test_a_stretch_ends_with_the_step_under_way(minutes: int, until: int | None, stretch: tuple[int, ...]) -> None:
    chosen = choose_stretch(AT, minutes, until)
    assert (chosen.since, chosen.until, chosen.step, chosen.span) == stretch


@pytest.mark.parametrize("minutes", [0, 30 * 24 * 60 + 1])
def test_a_chart_is_of_a_minute_to_thirty_days(minutes: int) -> None:
    with pytest.raises(InvalidInput, match=r"A chart is of 1 to 43,200 minutes\."):
        choose_stretch(AT, minutes)
    assert len(choose_stretch(AT, 30 * 24 * 60).points) <= 240

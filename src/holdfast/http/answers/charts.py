"""The past of each system, drawn from its roll-ups."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict


class Percentiles(TypedDict):
    """Milliseconds below which half, 95 and 99 of a hundred lie."""

    p50: int
    p95: int
    p99: int


class ChartPoint(TypedDict):
    """One step of time. Times are null where nothing was timed, and how much waited where nobody looked."""

    at: str
    jobs: int
    died: int
    cancelled: int
    stages: int
    failed: int
    error_rate: float
    waited_ms: Percentiles | None
    ran_ms: Percentiles | None
    cost_micros: int
    waiting: int | None
    held: int | None
    running: int | None
    outbox: int | None
    oldest_age_s: float | None


class ErrorCount(TypedDict):
    name: str
    number: int


class StageCount(TypedDict):
    kind: str
    stage: str
    done: int
    failed: int
    ran_ms: Percentiles | None


class CallPoint(TypedDict):
    at: str
    calls: int
    failed: int
    took_ms: Percentiles | None


class ProviderChart(TypedDict):
    name: str
    calls: int
    cost_micros: int
    points: list[CallPoint]


class OwnerCounts(TypedDict):
    """Jobs that an owner submitted, that are done, attempts that failed, jobs that died; how long a job took from its
    submission to its success; calls and what they cost."""

    submitted: int
    done: int
    failed: int
    died: int
    took_ms: Percentiles | None
    calls: int
    cost_micros: int


class OwnerPoint(OwnerCounts):
    at: str


class OwnerChart(OwnerCounts):
    """Without a name: all others."""

    name: str | None
    points: list[OwnerPoint]


class ChartMark(TypedDict):
    """What happened meanwhile; `href` is a place of the console."""

    at: str
    sort: Literal["deploy", "breaker", "incident"]
    words: str
    href: str


class SystemCharts(TypedDict):
    """`counted_until`: what ended later is not in it yet."""

    system: str
    title: str
    runs_jobs: bool
    since: str
    until: str
    now: str
    step_s: int
    counted_until: str | None
    points: list[ChartPoint]
    errors: list[ErrorCount]
    stages: list[StageCount]
    providers: list[ProviderChart]
    owners: list[OwnerChart]
    marks: list[ChartMark]


class ChartsAnswer(TypedDict):
    items: list[SystemCharts]

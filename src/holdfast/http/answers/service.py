"""The service at a glance: systems, providers, what leaves, who works, what it costs, who did what."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from holdfast.core.breaker import Gate
from holdfast.core.control import Sort
from holdfast.core.job import State
from holdfast.http.answers.jobs import JobEffect
from holdfast.http.answers.rows import AuditEntry, Document, LastError, MessageStatus, NoticeAnswer


class LaneRow(TypedDict):
    """Jobs of a queue in a state; held for a provider they are `parked`, of a paused kind `paused`."""

    queue: str
    state: str
    jobs: int
    oldest_age_s: float


class EndedRow(TypedDict):
    kind: str
    state: State
    jobs: int


class UndeclaredRow(TypedDict):
    kind: str
    stage: str
    jobs: int


class SystemGlance(TypedDict):
    """A system whose database does not answer has its light and its notice, and no numbers."""

    system: str
    title: str
    runs_jobs: bool
    light: Literal["green", "yellow", "red"]
    asks: list[NoticeAnswer]
    lanes: NotRequired[list[LaneRow]]
    oldest_age_s: NotRequired[float]
    oldest_held_age_s: NotRequired[float]
    finished_last_hour: NotRequired[list[EndedRow]]
    outbox_pending: NotRequired[int]
    outbox_lag_s: NotRequired[float]
    incidents: NotRequired[int]
    dead_letters: NotRequired[dict[str, int]]
    dead_letters_open: NotRequired[int]
    dead_letters_quiet: NotRequired[int]
    breakers_not_closed: NotRequired[list[str]]
    workers: NotRequired[int]
    undeclared: NotRequired[list[UndeclaredRow]]


class OverviewAnswer(TypedDict):
    items: list[SystemGlance]


class BreakerRow(TypedDict):
    """`open_s`: how long the present outage lasts; `parked`: how many jobs wait for it."""

    system: str
    name: str
    gate: Gate
    reason: str | None
    forced: bool
    opened_at: str | None
    open_until: str | None
    open_s: float
    calls_in_window: int
    failures_in_window: int
    mode: str | None
    parked: int
    not_before: str | None


class BreakerList(TypedDict):
    items: list[BreakerRow]


class GateChange(TypedDict):
    system: str
    name: str
    gate: Gate
    at: str
    reason: str


class GateChanges(TypedDict):
    items: list[GateChange]


class MessageRow(TypedDict):
    system: str
    seq: int
    id: str
    aggregate_id: str
    destination: str
    message_type: str
    status: MessageStatus
    created_at: str
    available_at: str
    processed_at: str | None
    retry_count: int
    error_message: str | None


class MessagePage(TypedDict):
    items: list[MessageRow]
    next: str | None


class EffectAnswerRow(JobEffect):
    system: str
    kind: str
    job_id: str | None
    created_at: str
    updated_at: str


class EffectPage(TypedDict):
    items: list[EffectAnswerRow]
    next: str | None


class ActRow(AuditEntry):
    system: str
    seq: int


class ActPage(TypedDict):
    items: list[ActRow]
    next: str | None


class CostRow(TypedDict):
    """`kind` is null where the job was pruned."""

    system: str
    day: str
    provider: str
    kind: str | None
    calls: int
    failed: int
    cost_micros: int
    duration_ms: int


class CostsAnswer(TypedDict):
    since: str
    items: list[CostRow]
    total_cost_micros: int


class RunningJob(TypedDict):
    id: str
    kind: str
    stage: str
    attempt: int
    last_attempt_at: str | None


class WorkerRow(TypedDict):
    system: str
    name: str
    queues: str
    started_at: str
    seen_at: str
    in_flight: int
    drain_at: str | None
    release: str | None
    alive: bool
    state: Literal["running", "draining", "drained", "silent"]
    host: str
    jobs: list[RunningJob]


class WorkerList(TypedDict):
    items: list[WorkerRow]


class ScheduleRow(TypedDict):
    """`added`: by a person while all was running, not by the code."""

    system: str
    name: str
    cron: str
    kind: str
    payload: Document
    next_at: str
    last_at: str | None
    timezone: str
    jitter_ms: int
    overlap: str
    paused: bool
    added: bool


class ScheduleList(TypedDict):
    items: list[ScheduleRow]


class ScheduledJob(TypedDict):
    system: str
    id: str
    job_key: str
    state: State
    stage: str
    failures: int
    created_at: str
    finished_at: str | None
    error: LastError | None


class ScheduledJobs(TypedDict):
    items: list[ScheduledJob]


class PauseRow(TypedDict):
    """A kind or a queue; `jobs` wait for it while it is paused."""

    system: str
    sort: Sort
    name: str
    is_paused: bool
    since: str | None
    actor: str | None
    reason: str | None
    jobs: int


class PauseList(TypedDict):
    items: list[PauseRow]


class Ready(TypedDict):
    """By system; `duties` by system and name: what this process does, and what each duty waits for."""

    status: Literal["ready"]
    systems: dict[str, str]
    duties: NotRequired[dict[str, dict[str, str]]]

"""Jobs: in lists, and one with its whole story."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from holdfast.core.control import Sort
from holdfast.core.job import State
from holdfast.http.answers.rows import (
    AuditEntry,
    Document,
    EffectStatus,
    JobRow,
    MessageStatus,
    WholeLetter,
)


class JobPage(TypedDict):
    """`next` is null on the last page."""

    items: list[JobRow]
    next: str | None


class JobCounts(TypedDict):
    """By state, those that are held apart as `held`; of a great many the newest are counted and `is_all` is false."""

    counts: dict[str, int]
    is_all: bool


class WaterfallBar(TypedDict):
    """`until` is null while it goes on."""

    what: Literal["attempt", "call", "effect", "gap"]
    title: str
    since: str
    until: str | None
    tone: str
    reason: str
    attempt: int | None


class ChildRow(TypedDict):
    id: str
    kind: str
    stage: str
    state: State
    created_at: str
    finished_at: str | None


class JoinRow(TypedDict):
    """Children that a job waits for; `unended` of `size` have not ended."""

    id: str
    stage: str
    epoch: int
    kind: str
    state: str
    size: int
    unended: int
    created_at: str


class LogOfAttempt(TypedDict):
    """The first lines, each as time, level, logger and text; `number` is how many there were."""

    attempt: int
    number: int
    lines: list[tuple[str, str, str, str]]


class EventRow(TypedDict):
    seq: int
    part: int
    attempt: int
    type: str
    at: str
    data: Document


class ResultRow(TypedDict):
    stage: str
    attempt: int
    is_late: bool
    at: str
    value: Document


class CallRow(TypedDict):
    stage: str | None
    attempt: int | None
    provider: str
    started_at: str
    duration_ms: int
    outcome: Literal["ok", "failed", "ambiguous"]
    status: int | None
    error_class: str | None
    cost_micros: int
    units: Document


class AnswerRow(TypedDict):
    """The stored answer of a paid call."""

    stage: str
    run: str
    value: Document


class JobEffect(TypedDict):
    key: str
    stage: str
    provider: str
    provider_class: Literal["token", "lookup", "neither"]
    status: EffectStatus
    provider_id: str | None
    sends: int
    first_sent_at: str | None
    last_sent_at: str | None
    marked_at: str | None
    error_class: str | None
    error: Document


class JobMessage(TypedDict):
    id: str
    destination: str
    message_type: str
    status: MessageStatus
    created_at: str
    processed_at: str | None
    retry_count: int
    error_message: str | None


class PausedThing(TypedDict):
    sort: Sort
    name: str


class WhyFacts(TypedDict):
    """The facts behind `why`; which of them there are depends on the `code`. Times are milliseconds since 1970."""

    code: str
    queue: NotRequired[str]
    kind: NotRequired[str]
    stage: NotRequired[str]
    version: NotRequired[int]
    workers: NotRequired[int]
    in_flight: NotRequired[int]
    held_back: NotRequired[str]
    run_at: NotRequired[int]
    failures: NotRequired[int]
    crashes: NotRequired[int]
    not_before: NotRequired[int | None]
    reason: NotRequired[str | None]
    paused: NotRequired[list[PausedThing]]
    since: NotRequired[int]
    provider: NotRequired[str | None]
    gate: NotRequired[str | None]
    open_until: NotRequired[int | None]
    worker: NotRequired[str | None]
    lease_until: NotRequired[int | None]
    attempt: NotRequired[int]
    wait_key: NotRequired[str | None]
    until: NotRequired[int]
    case_id: NotRequired[str]
    case_state: NotRequired[str]
    error_class: NotRequired[str | None]
    finished_at: NotRequired[int | None]


class JobStory(JobRow):
    """One job: why it is where it is, and everything that happened to it."""

    last_attempt_at: str | None
    first_failure_at: str | None
    not_before: str | None
    wait_key: str | None
    trace: str | None
    version: int
    payload: Document
    now: str
    why: str
    why_facts: WhyFacts
    waterfall: list[WaterfallBar]
    parent: str | None
    children: list[ChildRow]
    joins: list[JoinRow]
    logs: list[LogOfAttempt]
    events: list[EventRow]
    results: list[ResultRow]
    calls: list[CallRow]
    cost_micros: int
    answers: list[AnswerRow]
    effects: list[JobEffect]
    outbox: list[JobMessage]
    dead_letter: WholeLetter | None
    audit: list[AuditEntry]

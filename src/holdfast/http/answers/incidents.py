"""Incidents: in lists, and one with its timeline."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from holdfast.core.case import CaseState
from holdfast.core.job import State
from holdfast.http.answers.rows import NoticeAnswer
from holdfast.operator.incidents import TimelineEntry


class IncidentFacts(TypedDict):
    """`unit`: what `jobs_max` counts, where it is messages or effects; `owners_max` of how many customers."""

    system: str
    id: str
    topic: str
    subject: str
    severity: Literal["page", "ticket"]
    state: Literal["open", "over", "closed"]
    sentence: str
    began_at: str
    opened_at: str
    ended_at: str | None
    closed_at: str | None
    acknowledged_at: str | None
    acknowledged_by: str | None
    assignee: str | None
    summary: str | None
    jobs_max: int
    owners_max: int
    unit: str


class IncidentRow(IncidentFacts):
    """`now`: how it is at this moment, while it goes on."""

    now: NoticeAnswer | None


class IncidentPage(TypedDict):
    items: list[IncidentRow]
    next: str | None


class HitRow(TypedDict):
    """How many jobs it held, killed, or made late, and of how many owners."""

    role: Literal["held", "dead", "late"]
    jobs: int
    owners: int
    first_at: str
    last_at: str


class HitJob(TypedDict):
    job_id: str
    role: Literal["held", "dead", "late"]
    letter_id: str | None
    at: str
    kind: str | None
    stage: str | None
    state: State | None
    owner: str | None
    error_class: str | None
    letter_state: CaseState | None


class IncidentStory(IncidentRow):
    hit: list[HitRow]
    timeline: list[TimelineEntry]
    jobs: list[HitJob]

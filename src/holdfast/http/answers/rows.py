"""What several answers are made of. Times are ISO 8601 in UTC; money is in millionths of a currency unit."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypedDict

from holdfast.core.case import CaseState, Cause
from holdfast.core.failure import Category
from holdfast.core.job import State

EffectStatus = Literal["planned", "sending", "unknown", "sent", "failed", "review"]
MessageStatus = Literal["pending", "published", "failed"]
Document = Any
"""Any JSON: an input, a result, an answer. Secrets in it are masked."""


class LastError(TypedDict):
    error_class: str
    message: str


class ValueChange(TypedDict):
    path: str
    before: Document
    after: Document


class StageEffect(TypedDict):
    key: str
    status: EffectStatus


class JobRow(TypedDict):
    """`parked`: held for a provider or a pause; `hold` says by what."""

    system: str
    id: str
    kind: str
    queue: str
    stage: str
    state: State
    parked: bool
    hold: str | None
    provider: str | None
    priority: int
    attempt: int
    failures: int
    crashes: int
    epoch: int
    run_at: str
    created_at: str
    updated_at: str
    started_at: str | None
    finished_at: str | None
    deadline_at: str | None
    lease_owner: str | None
    lease_until: str | None
    owner: str | None
    job_key: str | None
    error: LastError | None


class AuditEntry(TypedDict):
    at: str
    actor: str
    action: str
    subject: str
    data: Document


class LetterFacts(TypedDict):
    """What is known of a dead letter."""

    id: str
    job_id: str
    request_id: str | None
    kind: str
    stage: str
    provider: str | None
    state: CaseState
    error_class: str
    category: Category
    retryable: bool
    failure_reason: str
    attempts_made: int
    last_error: str
    first_failure_at: str
    last_failure_at: str
    created_at: str
    updated_at: str
    fingerprint: str
    cause: Cause | None
    deaths: int
    replays: int


class WholeLetter(LetterFacts):
    last_stack: str
    original: str
    sanitized_context: Document
    evidence: str | None
    notes: str | None
    replay_stage: str | None


class NoticeAnswer(TypedDict):
    """Something that asks for a person."""

    topic: str
    severity: Literal["page", "ticket"]
    sentence: str
    number: int
    subject: str
    owners: int
    since_at: str | None
    next_at: str | None
    late_at: str | None
    answer: str | None
    to_do: str

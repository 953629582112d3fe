"""Dead letters: in lists, in groups, and one with its history."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from holdfast.core.case import CaseState
from holdfast.core.failure import Category
from holdfast.core.job import State
from holdfast.http.answers.jobs import JobEffect
from holdfast.http.answers.rows import AuditEntry, Change, Document, LetterFacts, WholeLetter


class LetterRow(LetterFacts):
    """`job_state` is null where the job was pruned."""

    system: str
    job_state: State | None


class LetterPage(TypedDict):
    items: list[LetterRow]
    next: str | None


class LetterGroup(TypedDict):
    """Letters that a person would treat as one, in one state. `cause` is `input` where callers' own mistakes are it."""

    system: str
    fingerprint: str
    kind: str
    stage: str
    provider: str | None
    error_class: str
    category: Category
    state: CaseState
    letters: int
    first_at: str
    last_at: str
    last_error: str
    cause: Literal["input", "service"]


class LetterGroups(TypedDict):
    items: list[LetterGroup]


class CorrectionEntry(TypedDict):
    at: str
    actor: str
    reason: str | None
    changes: list[Change]


class LetterStory(WholeLetter):
    """One dead letter with its history; `input_schema` is the JSON schema of the job's input, if it is known here."""

    system: str
    next_step: str
    audit: list[AuditEntry]
    input: Document
    original_input: Document
    corrections: list[CorrectionEntry]
    input_schema: Document


class ReplayPreview(TypedDict):
    """What a replay would change, keep, repeat, cost and wait for."""

    system: str
    id: str
    job_id: str
    dry_run: Literal[True]
    changes: list[Change]
    replay_from: str
    stages_kept: list[str]
    stages_again: list[str]
    effects_kept: list[str]
    effects_in_doubt: list[JobEffect]
    cost_kept_micros: int
    cost_again_micros: int
    provider: str | None
    gate: str | None
    gate_until: str | None
    not_before: str | None

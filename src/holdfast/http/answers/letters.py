"""Dead letters: in lists, in groups, and one with its history."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from holdfast.core.case import CaseState, Cause
from holdfast.core.failure import Category
from holdfast.core.job import State
from holdfast.http.answers.jobs import JobEffect
from holdfast.http.answers.rows import AuditEntry, Document, LetterFacts, ValueChange, WholeLetter


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
    changes: list[ValueChange]


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
    changes: list[ValueChange]
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


class RefusedSample(TypedDict):
    id: str
    detail: str


class GroupPreview(TypedDict):
    """What a replay of a group would do. Stages by how many jobs have completed them; with corrections, `changes` are
    the first letter's, and `refused` those of the `sampled` first that could not be corrected so."""

    system: str
    fingerprint: str
    dry_run: Literal[True]
    letters: int
    owners: int
    replay_from: str
    stages_kept: dict[str, int]
    stages_again: dict[str, int]
    effects_kept: int
    effects_in_doubt: int
    cost_kept_micros: int
    cost_again_micros: int
    provider: str | None
    gate: str | None
    last_begins_at: str
    changes: list[ValueChange]
    sampled: int
    refused: list[RefusedSample]


class ReplayRow(TypedDict):
    """The replay of a group of letters; `next_at` is when the next of them is due."""

    system: str
    id: str
    fingerprint: str
    kind: str
    stage: str
    error_class: str
    actor: str
    cause: Cause
    evidence: str | None
    set: Document
    is_full: bool
    per_minute: float | None
    state: Literal["running", "paused", "stopped", "done"]
    next_at: str
    created_at: str
    ended_at: str | None


class ReplayPage(TypedDict):
    items: list[ReplayRow]
    next: str | None


class ReplayTrouble(TypedDict):
    letter_id: str
    job_id: str
    detail: str | None


class ReplayStory(ReplayRow):
    """`outcomes`: letters not taken yet are `waiting`, those that could not be replayed `refused`, the others are
    counted by the present state of their jobs."""

    letters: int
    outcomes: dict[str, int]
    last_begins_at: str | None
    troubles: list[ReplayTrouble]

"""Answers to acts: what was done, and to what."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from holdfast.core.breaker import Gate
from holdfast.core.case import CaseState, Cause
from holdfast.core.control import Action, Sort
from holdfast.core.job import State
from holdfast.http.answers.rows import EffectStatus, StageEffect, ValueChange


class JobEnded(TypedDict):
    system: str
    id: str
    state: State


class PrioritySet(TypedDict):
    system: str
    id: str
    priority: int


class JobDeleted(TypedDict):
    system: str
    id: str


class AnswerGiven(TypedDict):
    """`delivered`: whether a job waited for it already."""

    system: str
    id: str
    key: str
    delivered: bool


class CallbackTaken(TypedDict):
    delivered: bool


class ActedJob(TypedDict):
    system: str
    id: str
    state: State


class RefusedJob(TypedDict):
    system: str
    id: str
    state: State
    detail: str


class JobsActed(TypedDict):
    """One page; `next` is where the page after it begins, null on the last."""

    dry_run: bool
    action: Action
    done: list[ActedJob]
    refused: list[RefusedJob]
    next: str | None


class ActedLetter(TypedDict):
    system: str
    id: str
    job_id: str


class RefusedLetter(TypedDict):
    system: str
    id: str
    job_id: str
    detail: str


class LettersActed(TypedDict):
    """`remaining` could take the step too, but the limit was reached."""

    dry_run: bool
    matched: int
    done: list[ActedLetter]
    refused: list[RefusedLetter]
    remaining: int


class LetterStep(TypedDict):
    system: str
    id: str
    state: CaseState
    next_step: str


class LetterTriaged(LetterStep):
    cause: Cause


class LetterReplayed(LetterStep):
    job_id: str
    stage: str
    run_at: str


class LetterCorrected(LetterStep):
    job_id: str
    kind: str
    dry_run: bool
    changes: list[ValueChange]
    replay_from: str
    replay_reason: str
    results_kept: list[str]
    results_dropped: list[str]
    effects_performed: list[StageEffect]


class LetterMended(TypedDict):
    system: str
    id: str
    state: CaseState
    job_id: str
    stage: str
    run_at: str


class BreakerForced(TypedDict):
    system: str
    name: str
    gate: Gate
    reason: str


class MessageRequeued(TypedDict):
    system: str
    id: str
    status: Literal["pending"]


class EffectAnswered(TypedDict):
    system: str
    key: str
    status: EffectStatus
    sent: bool


class WorkerAsked(TypedDict):
    system: str
    name: str
    draining: bool


class ScheduleSet(TypedDict):
    system: str
    name: str
    paused: bool


class ScheduleRun(TypedDict):
    system: str
    name: str
    job_id: str


class PauseSet(TypedDict):
    system: str
    sort: Sort
    name: str
    is_paused: bool
    since: str
    actor: str
    reason: str


class TicketIssued(TypedDict):
    ticket: str
    expiresAt: str


class Alive(TypedDict):
    status: Literal["ok"]

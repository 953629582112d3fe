"""Turns the outcome of an attempt into the job's next row. Pure: the one place where a job's fate is decided.

Worker, reaper, sweep, callback and operator all come through here, and all write what comes out through
`kernel.settle`. A decision never looks at a clock or a die: `now` and `draw` are given.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import assert_never

from holdfast.core.deadline import passes
from holdfast.core.failure import Category, Failure, failure
from holdfast.core.job import Claimed, State
from holdfast.core.outcome import (
    Called,
    Discard,
    Done,
    Failed,
    Held,
    Lost,
    Next,
    Outcome,
    Overdue,
    Released,
    Snooze,
    Wait,
    Withdrawn,
)
from holdfast.core.retry import Retry

CRASHES_MAX = 3
CRASH_DELAY_MS = 1_000


@dataclass(frozen=True, slots=True)
class StagePlan:
    """What deciding needs to know of a stage."""

    name: str
    provider: str | None = None
    retry: Retry = field(default_factory=Retry)


@dataclass(slots=True)
class Decision:
    """The job's next row, and why. `buried` is the dead letter's reason when the job dies; `hold` is 'limit' while it
    is parked until its provider has room."""

    state: State
    event: str
    stage: str
    run_at: int
    failures: int
    crashes: int
    provider: str | None
    not_before: int | None = None
    first_failure_at: int | None = None
    wait_key: str | None = None
    failure: Failure | None = None
    buried: str | None = None
    hold: str | None = None
    note: str | None = None


def decide(
    job: Claimed, outcome: Outcome, plan: StagePlan, following: StagePlan | None, now: int, draw: float
) -> Decision:
    """The next row of `job` after `outcome`. `following` is the stage after the present one, if any.

    Time of receipt decides: what comes in after the deadline ends the job, whether or not a sweep saw it first."""
    outcome = _in_time(job, outcome, now)
    match outcome:
        case Done():
            return _ended(job, plan, State.SUCCEEDED, "succeeded", now)
        case Next() | Called():
            if following is None:
                return _ended(job, plan, State.SUCCEEDED, "succeeded", now)
            return Decision(State.QUEUED, "advanced", following.name, now, 0, 0, following.provider)
        case Snooze(delay_s, reason):
            run_at = now + max(0, int(delay_s * 1_000))
            return _again(job, plan, "snoozed", run_at, note=reason)
        case Held(provider, reason, retry_at, parks):
            if parks and provider == plan.provider:  # due at once, and parked until there is room
                return replace(_again(job, plan, "held", now, note=reason), hold="limit")
            return _again(job, plan, "held", max(now, retry_at), note=reason)
        case Released():
            return _again(job, plan, "released", now)
        case Wait(key, within_s):
            until = now + int(within_s * 1_000)
            return _waiting(job, plan, key, until)
        case Lost():
            return _lost(job, plan, now)
        case Failed(why):
            return _failed(job, plan, why, now, draw)
        case Discard(reason, error_class):
            why = failure(Category.POLICY, error_class, reason)
            return _buried(job, plan, why, "discarded", now)
        case Overdue(error_class):
            why = failure(Category.BUG, error_class, _overdue_message(job, error_class))
            return _buried(job, plan, why, "deadline", now, event="expired")
        case Withdrawn(actor):
            return _ended(job, plan, State.CANCELLED, "cancelled", now, note=f"by {actor}")
        case _:
            assert_never(outcome)


def _in_time(job: Claimed, outcome: Outcome, now: int) -> Outcome:
    if not isinstance(outcome, (Done, Next, Called)):
        return outcome
    if passes(now, job.deadline_at):
        return Overdue()
    if isinstance(outcome, Called) and now > job.run_at:  # of a waiting job: until when it waits
        return Overdue("CALLBACK_OVERDUE")
    return outcome


def _ended(job: Claimed, plan: StagePlan, state: State, event: str, now: int, note: str | None = None) -> Decision:
    return Decision(state, event, plan.name, now, job.failures, job.crashes, plan.provider, note=note)


def _again(job: Claimed, plan: StagePlan, event: str, run_at: int, note: str | None = None) -> Decision:
    """Back to the queue at no cost to the stage's budget."""
    return Decision(
        State.QUEUED,
        event,
        plan.name,
        run_at,
        job.failures,
        job.crashes,
        plan.provider,
        not_before=job.not_before,
        first_failure_at=job.first_failure_at,
        note=note,
    )


def _waiting(job: Claimed, plan: StagePlan, key: str, until: int) -> Decision:
    return Decision(State.WAITING, "waiting", plan.name, until, job.failures, 0, plan.provider, wait_key=key, note=key)


def _lost(job: Claimed, plan: StagePlan, now: int) -> Decision:
    """A lost worker costs no attempt of the stage, but the third one makes the job a poison job."""
    crashes = job.crashes + 1
    why = failure(
        Category.NETWORK,
        "WORKER_LOST",
        f"The worker holding the job was lost, {crashes} time(s) in this stage.",
        ambiguous=True,
    )
    if crashes >= CRASHES_MAX:
        poison = failure(Category.BUG, "POISON_JOB", f"The job lost {crashes} workers; it may be killing them.")
        decision = _buried(job, plan, poison, "poison", now)
        decision.crashes = crashes
        return decision
    decision = _again(job, plan, "lost", max(now + CRASH_DELAY_MS * crashes, job.not_before or 0))
    decision.crashes = crashes
    decision.failure = why
    decision.first_failure_at = job.first_failure_at or now
    return decision


def _failed(job: Claimed, plan: StagePlan, why: Failure, now: int, draw: float) -> Decision:
    failures = job.failures + 1
    if not why.retryable:
        return _buried(job, plan, why, "permanent", now, failures)
    if failures >= plan.retry.attempts:
        return _buried(job, plan, why, "exhausted", now, failures)
    run_at = now + plan.retry.delay_ms(failures, draw, why.retry_after_ms)
    if passes(run_at, job.deadline_at):
        return _buried(job, plan, why, "deadline", now, failures)
    asked = now + why.retry_after_ms if why.retry_after_ms else None
    return Decision(
        State.QUEUED,
        "retried",
        plan.name,
        run_at,
        failures,
        job.crashes,
        plan.provider,
        not_before=_not_before(asked, plan.retry, now),
        first_failure_at=job.first_failure_at or now,
        failure=why,
    )


def _not_before(asked: int | None, retry: Retry, now: int) -> int | None:
    """What the provider asked for, kept on the row so that a replay respects it too."""
    return None if asked is None else min(asked, now + int(retry.ceiling_s * 1_000))


def _buried(
    job: Claimed,
    plan: StagePlan,
    why: Failure,
    reason: str,
    now: int,
    failures: int | None = None,
    event: str = "buried",
) -> Decision:
    asked = now + why.retry_after_ms if why.retry_after_ms else job.not_before
    return Decision(
        State.DEAD,
        event,
        plan.name,
        now,
        job.failures if failures is None else failures,
        job.crashes,
        plan.provider,
        not_before=_not_before(asked, plan.retry, now),
        first_failure_at=job.first_failure_at or now,
        failure=why,
        buried=reason,
    )


def _overdue_message(job: Claimed, error_class: str) -> str:
    if error_class == "CALLBACK_OVERDUE":
        return f"Nobody called back while the stage '{job.stage}' was waiting."
    return f"The deadline passed while the job was {job.state} in stage '{job.stage}'."

"""Turns the outcome of an attempt into the job's next row. Pure: the one place where a job's fate is decided.

Worker, reaper, sweep, callback and operator all come through here, and all write what comes out through
`kernel.settle`. A decision never looks at a clock, a die or a breaker: `now`, `draw` and `gates` are given. What a
failure costs, and what costs nothing, is said in `core.budget`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import assert_never

from holdfast.core import budget
from holdfast.core.budget import Gates, Tally
from holdfast.core.failure import Category, Failure, failure
from holdfast.core.job import Claimed, State, passes
from holdfast.core.outcome import (
    Back,
    Called,
    Discard,
    Done,
    Failed,
    Held,
    Lost,
    Next,
    Outcome,
    Overdue,
    Parked,
    Released,
    Resumed,
    Snooze,
    Unfit,
    Wait,
    Withdrawn,
)
from holdfast.core.retry import Retry

CRASHES_MAX = 3
CRASH_DELAY_MS = 1_000
ASKED_NOTE = "the provider asked to be called later: this cost no attempt"
DOWN_NOTE = "the provider is known to be down: this cost no attempt"
UNFIT_DELAY_MS = 60_000


@dataclass(frozen=True, slots=True)
class StagePlan:
    """What deciding needs to know of a stage. `retries_in_all` is the budget of the whole job, its stages together."""

    name: str
    provider: str | None = None
    retry: Retry = field(default_factory=Retry)
    retries_in_all: int | None = None


@dataclass(slots=True)
class Decision:
    """The job's next row, and why. `buried` is the dead letter's reason when the job dies; `hold` is 'limit' while it
    is parked until its provider has room. `is_attempt`: an attempt of the handler ended with this; `attempts_made` is
    how many of the stage there were, and is known once the dead letter is written."""

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
    tally: str | None = None
    is_attempt: bool = True
    attempts_made: int = 0


NO_GATES: Gates = {}


def decide(
    job: Claimed,
    outcome: Outcome,
    plan: StagePlan,
    following: StagePlan | None,
    now: int,
    draw: float,
    gates: Gates = NO_GATES,
) -> Decision:
    """The next row of `job` after `outcome`. `following` is the stage after the present one, if any. `gates` are the
    breakers of the providers that the outcome or the job's tally speaks of, as they are now.

    Time of receipt decides: what comes in after the deadline ends the job, whether or not a sweep saw it first."""
    outcome = _in_time(job, outcome, now)
    match outcome:
        case Done() | Next() | Called():
            if following is None or isinstance(outcome, Done):
                return _ended(job, plan, State.SUCCEEDED, "succeeded", now)
            return _advanced(job, following, now, gates)
        case Failed():
            return _failed(job, plan, outcome, now, draw, gates)
        case Lost():
            return _lost(job, plan, now)
        case Back(stage, provider):
            return _rewound(job, stage, provider, now, gates)
        case Snooze() | Held() | Unfit() | Released() | Resumed():
            return _put_back(job, plan, outcome, now)
        case Wait() | Parked():
            return _waiting(job, plan, outcome, now)
        case Discard() | Overdue() | Withdrawn():
            return _given_up(job, plan, outcome, now)
        case _:
            assert_never(outcome)


def _put_back(job: Claimed, plan: StagePlan, outcome: Snooze | Held | Unfit | Released | Resumed, now: int) -> Decision:
    """To the same stage, at no cost to its budget."""
    match outcome:
        case Snooze(delay_s, reason):
            return _again(job, plan, "snoozed", now + max(0, int(delay_s * 1_000)), note=reason)
        case Held():
            return _held(job, plan, outcome, now)
        case Unfit(reason):
            return replace(_again(job, plan, "snoozed", now + UNFIT_DELAY_MS, note=reason), hold="unfit")
        case Released():
            return _again(job, plan, "released", now)
        case Resumed():
            return _again(job, plan, "resumed", now)


def _given_up(job: Claimed, plan: StagePlan, outcome: Discard | Overdue | Withdrawn, now: int) -> Decision:
    """The job ends although its handler has neither succeeded nor failed."""
    match outcome:
        case Discard(reason, error_class):
            return _buried(job, plan, failure(Category.POLICY, error_class, reason), "discarded", now)
        case Overdue(error_class, begun):
            why = failure(Category.BUG, error_class, _overdue_message(job, error_class))
            decision = _buried(job, plan, why, "deadline", now, event="expired")
            decision.is_attempt = begun and job.state == State.PROCESSING
            return decision
        case Withdrawn(actor):
            return _ended(job, plan, State.CANCELLED, "cancelled", now, note=f"by {actor}")


def _in_time(job: Claimed, outcome: Outcome, now: int) -> Outcome:
    if not isinstance(outcome, (Done, Next, Called)):
        return outcome
    if passes(now, job.deadline_at):
        return Overdue()
    if isinstance(outcome, Called) and now > job.run_at:  # of a waiting job: until when it waits
        return Overdue("CALLBACK_OVERDUE")
    return outcome


def _ended(job: Claimed, plan: StagePlan, state: State, event: str, now: int, note: str | None = None) -> Decision:
    return Decision(state, event, plan.name, now, job.failures, job.crashes, plan.provider, note=note, tally=job.tally)


def _advanced(job: Claimed, following: StagePlan, now: int, gates: Gates) -> Decision:
    """On to the next stage, whose budget is fresh; what this one spent still counts for the whole job."""
    tally = _tally_so_far(job, gates)
    return Decision(State.QUEUED, "advanced", following.name, now, 0, 0, following.provider, tally=tally)


def _rewound(job: Claimed, stage: str, provider: str | None, now: int, gates: Gates) -> Decision:
    """Back to an earlier stage, whose result is needed and missing; what was spent still counts for the whole job."""
    note, tally = f"back to '{stage}'", _tally_so_far(job, gates)
    return Decision(State.QUEUED, "rewound", stage, now, 0, 0, provider, note=note, tally=tally)


def _tally_so_far(job: Claimed, gates: Gates) -> str | None:
    if not job.failures and not job.tally:
        return None
    failures, tally = budget.refunded(job.failures, budget.from_text(job.tally), gates)
    return budget.to_text(Tally(earlier=tally.earlier + failures))


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
        tally=job.tally,
    )


def _held(job: Claimed, plan: StagePlan, held: Held, now: int) -> Decision:
    """Nothing was called. A wait that the provider asked for ends the job if it could only end too late, or nothing is
    left of the bound on them all: the provider is then the cause, as for the job that it told so."""
    if held.parks and held.provider == plan.provider:  # due at once, and parked until there is room
        return replace(_again(job, plan, "held", now, note=held.reason), hold="limit")
    run_at = max(now, held.retry_at)
    decision = _again(job, plan, "held", run_at, note=held.reason)
    if not held.asked:
        return decision
    tally = budget.from_text(job.tally)
    message = (
        f"The provider '{held.provider}' wants a later call and has put the job off for {tally.held_ms // 1_000} s."
    )
    why = failure(Category.RATE_LIMIT, "RATE_LIMITED", message, retry_after_ms=run_at - now)
    look_at = budget.within_hold(tally, run_at, now, held.hold_max_ms)
    if look_at is None:
        return _buried(job, plan, why, "exhausted", now, tally=tally)
    if passes(run_at, job.deadline_at):
        return _buried(job, plan, why, "no_time", now, tally=tally)
    tally = replace(tally, held_ms=tally.held_ms + look_at - now)
    return replace(decision, run_at=look_at, tally=budget.to_text(tally))


def _waiting(job: Claimed, plan: StagePlan, outcome: Wait | Parked, now: int) -> Decision:
    key, until = outcome.key, outcome.until if isinstance(outcome, Parked) else now + int(outcome.within_s * 1_000)
    return Decision(
        State.WAITING,
        "waiting",
        plan.name,
        until,
        job.failures,
        0,
        plan.provider,
        wait_key=key,
        note=key,
        tally=job.tally,
    )


def _lost(job: Claimed, plan: StagePlan, now: int) -> Decision:
    """A lost worker costs no attempt of the stage, but the third one makes the job a poison job."""
    crashes = job.crashes + 1
    message = f"The worker holding the job was lost ({crashes} of {CRASHES_MAX} in this stage)."
    why = failure(Category.NETWORK, "WORKER_LOST", message, ambiguous=True)
    if crashes >= CRASHES_MAX:
        poison = failure(Category.BUG, "POISON_JOB", f"The job lost {crashes} workers; it may be killing them.")
        return replace(_buried(job, plan, poison, "poison", now), crashes=crashes)
    again = _again(job, plan, "lost", max(now + CRASH_DELAY_MS * crashes, job.not_before or 0))
    return replace(again, crashes=crashes, failure=why, first_failure_at=job.first_failure_at or now)


def _failed(job: Claimed, plan: StagePlan, failed: Failed, now: int, draw: float, gates: Gates) -> Decision:
    """Count the failure if it says something about the job, after what turned out to be an outage is given back."""
    why = failed.failure
    failures, tally = budget.refunded(job.failures, budget.from_text(job.tally), gates)
    if not why.retryable:
        return _buried(job, plan, why, "permanent", now, failures + 1, tally=tally)
    if budget.asks_to_wait(why):
        return _put_off(job, plan, failed, failures, tally, now, draw)
    if budget.is_known_down(failed.standings, gates):
        run_at = now + plan.retry.delay_ms(1, draw, why.retry_after_ms)
        return _retried(job, plan, why, run_at, failures, replace(tally, waits=0), now, note=DOWN_NOTE)
    failures, tally = failures + 1, budget.with_failure(tally, failed.standings)
    in_all = plan.retries_in_all
    if failures >= plan.retry.attempts or (in_all is not None and tally.earlier + failures > in_all):
        return _buried(job, plan, why, "exhausted", now, failures, tally=tally)
    run_at = now + plan.retry.delay_ms(failures, draw, why.retry_after_ms)
    return _retried(job, plan, why, run_at, failures, tally, now)


def _put_off(
    job: Claimed, plan: StagePlan, failed: Failed, failures: int, tally: Tally, now: int, draw: float
) -> Decision:
    """The provider asked to wait. Asking again and again makes the waits longer, so that a short one that never ends
    is not a call a second; a bound on them all ends the job."""
    why = failed.failure
    run_at = now + plan.retry.delay_ms(tally.waits + 1, draw, why.retry_after_ms)
    look_at = budget.within_hold(tally, run_at, now, budget.strictest_hold_ms(failed.standings))
    if look_at is None:
        return _buried(job, plan, why, "exhausted", now, failures, tally=tally)
    if passes(run_at, job.deadline_at):
        return _buried(job, plan, why, "no_time", now, failures, tally=tally)
    return _retried(job, plan, why, look_at, failures, budget.with_wait(tally, look_at - now), now, note=ASKED_NOTE)


def _retried(
    job: Claimed,
    plan: StagePlan,
    why: Failure,
    run_at: int,
    failures: int,
    tally: Tally,
    now: int,
    note: str | None = None,
) -> Decision:
    """Back to the queue; unless that would be too late, for then failing now is better than sleeping first."""
    if passes(run_at, job.deadline_at):
        return _buried(job, plan, why, "no_time", now, failures, tally=tally)
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
        note=note,
        tally=budget.to_text(tally),
    )


def _not_before(asked: int | None, retry: Retry, now: int) -> int | None:
    """What the provider asked for, kept on the row so that a replay respects it too."""
    return None if asked is None else now + retry.cut_ms(asked - now)


def _buried(
    job: Claimed,
    plan: StagePlan,
    why: Failure,
    reason: str,
    now: int,
    failures: int | None = None,
    event: str = "buried",
    tally: Tally | None = None,
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
        tally=job.tally if tally is None else budget.to_text(tally),
    )


def _overdue_message(job: Claimed, error_class: str) -> str:
    if error_class == "CALLBACK_OVERDUE":
        return f"Nobody called back while the stage '{job.stage}' was waiting."
    return f"The deadline passed while the job was {job.state} in stage '{job.stage}'."

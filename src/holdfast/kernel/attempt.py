"""Runs one attempt: bind, call the handler, classify. It decides nothing and writes nothing.

Whatever a handler raises becomes a classified failure here, because a job must end in a row, never in a traceback on a
terminal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Token
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from holdfast.core.address import sealed_number
from holdfast.core.budget import Standing
from holdfast.core.classify import classify, name_origin, unwrap
from holdfast.core.failure import Category, Failure, failure
from holdfast.core.job import clip_ms, passes
from holdfast.core.outcome import Answer, Back, Done, Failed, Held, Lost, Next, Outcome, Overdue, Parked, Snooze, Unfit
from holdfast.core.redact import redact_stack
from holdfast.errors import (
    BadDeclaration,
    InvalidInput,
    LeaseLost,
    ProviderHeld,
    StoreDown,
)
from holdfast.kernel.compose.parking import Parking, parking_in
from holdfast.kernel.context import Context
from holdfast.kernel.declare.path import earlier_stage, stage_after, stored_result
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.kinds import ANSWERS, JobKind, Stage
from holdfast.kernel.observe.attempt_log import ATTEMPT_LOG, AttemptLog
from holdfast.kernel.observe.trace import span, tracing
from holdfast.kernel.running.aside import ProcessLost
from holdfast.kernel.running.asked import check_awaited
from holdfast.kernel.running.eager import first_step, resume_handler
from holdfast.kernel.running.mistakes import exit_of, mistake_in, no_result
from holdfast.kernel.sealing import KeyMissing, open_input
from holdfast.kernel.settle import Ending, LeasedJob

STORE_AWAY_SNOOZE_S = 2.0
WITHOUT_MESSAGES = (Failed, Held)
NOTHING = Next()


async def run_attempt(kernel: Kernel, taken: LeasedJob) -> Ending | None:
    """Run the job's present stage once. None: the lease was lost meanwhile, and there is nothing to say."""
    job = taken.job
    kind = kernel.registry.kinds.get(job.kind)
    stage = kind.by_name.get(job.stage) if kind else None
    if kind is None or stage is None:  # the claim takes no such job; whoever handed it over is of other code
        return Ending(job, Unfit(f"no app loaded here declares the stage '{job.stage}' of '{job.kind}'"))
    earlier = earlier_stage(kind, job, taken.results)
    if earlier is not None:
        return Ending(job, Back(earlier.name, earlier.plan.provider))
    started = kernel.now()
    if passes(started, job.deadline_at):
        return Ending(job, Overdue(begun=False))  # nothing is begun that could only come too late
    context = Context(kernel, kind, stage, job, started)
    book = AttemptLog()
    bound = ATTEMPT_LOG.set(book)
    outcome: Outcome | None = None
    value: str | None = None
    try:
        if tracing():
            with span(f"{job.kind} {job.stage}", job.trace, {"job.id": job.id, "job.attempt": job.attempt}):
                outcome, value = await _outcome(kernel, context, kind, stage, taken)
        else:
            outcome, value = await _outcome(kernel, context, kind, stage, taken)
    except LeaseLost:
        pass
    finally:
        _unbind(bound)
    if context.written is not None:
        context.written.committed()
        return Ending(job, Next(None), is_written=True)
    if outcome is None:
        return None
    return Ending(
        job,
        outcome,
        value,
        messages=[] if isinstance(outcome, WITHOUT_MESSAGES) else context.messages,
        events=context.events,
        duration_ms=kernel.now() - started,
        provider_status=context.provider_status,
        has_answers=context.paid is not None or bool(context.kept),
        taken=None if stage_after(kind, job) is None else taken,
        log=book.dump() if book.number else None,
    )


def _unbind(bound: Token[AttemptLog | None]) -> None:
    """An attempt that was begun in one context and ends in another leaves nothing behind in either."""
    try:  # noqa: SIM105 - every job comes this way, and a context manager is three calls more
        ATTEMPT_LOG.reset(bound)
    except ValueError:
        pass


async def _outcome(
    kernel: Kernel, context: Context, kind: JobKind, stage: Stage, taken: LeasedJob
) -> tuple[Outcome, str | None]:
    try:
        arguments = _bind(kind, stage, taken)
    except InvalidInput as error:
        return Failed(_misfit("INPUT_INVALID", str(error))), None
    except _ResultUnfit as error:
        return Unfit(str(error)), None
    await kernel.failpoint("attempt.before_handler")
    limit: asyncio.Timeout | None = None
    try:
        handler = _begin(stage, kind.instance, context, arguments)
        ended, answer = first_step(handler)
        if not ended:
            limit = context.limit = asyncio.timeout(_limit_s(kernel, stage, taken))
            async with limit:
                answer = await resume_handler(handler, answer, limit, partial(_leave, context))
        if context.promised:
            check_awaited(context)
    except LeaseLost:
        raise
    except (Parking, BaseExceptionGroup) as error:
        return _left(error, kernel, stage), None
    except asyncio.CancelledError as error:
        if _asked_to_stop():
            raise
        return Failed(_raised(RuntimeError(f"cancelled from within: {error}"), kernel, stage)), None
    except SystemExit as error:
        return Failed(_misfit("USAGE_ERROR", exit_of(stage, error))), None
    except Exception as error:
        if isinstance(error, TimeoutError) and limit is not None and limit.expired():
            return Failed(_cut(error, stage, taken, context)), None
        return _outcome_of(error, kernel, stage), None
    await kernel.failpoint("attempt.after_handler")
    return _answered(stage, answer)


def _left(error: BaseException, kernel: Kernel, stage: Stage) -> Outcome:
    """What it means that a handler was left by a wait, or by a group of exceptions, which may all be waits."""
    parking = parking_in(error)
    if parking is not None:
        return Parked(parking.key, parking.until)
    if isinstance(error, Exception):
        return _outcome_of(error, kernel, stage)
    raise error


def _leave(context: Context) -> None:
    context.left_behind = True
    context.kernel.watch.log("handler.left_behind", job_id=context.job_id, kind=context.kind.name, stage=context.stage)


def _outcome_of(error: Exception, kernel: Kernel, stage: Stage) -> Outcome:
    """What a handler's exception means for its job. What is no fault of the job costs it nothing."""
    match error:
        case StoreDown():
            return Snooze(STORE_AWAY_SNOOZE_S, "the database was away")
        case ProcessLost():
            return Lost()
        case ProviderHeld() as held:
            return Held(held.provider, held.reason, held.retry_at, held.parks, held.asked, held.hold_max_ms)
        case _:
            mistake = mistake_in(error, stage)
            if mistake is not None:
                return Failed(replace(_misfit("USAGE_ERROR", mistake), stack=redact_stack(error)))
            return Failed(_raised(error, kernel, stage), standings_of(error))


def _asked_to_stop() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _bind(kind: JobKind, stage: Stage, taken: LeasedJob) -> list[Any]:
    arguments = [kind.load_input(_payload(kind, taken), taken.job.version)]
    for name in stage.needs:
        earlier = kind.by_name[name]
        text = stored_result(earlier, taken.results)
        if text is None and not earlier.may_be_none:
            raise _ResultUnfit(f"the stage '{name}' is done, but the result that '{stage.name}' needs of it is missing")
        try:
            arguments.append(None if text is None else earlier.load(text))
        except InvalidInput as error:
            raise _ResultUnfit(str(error)) from None
    return arguments


def _payload(kind: JobKind, taken: LeasedJob) -> str:
    """The stored input, its addresses whole."""
    if not kind.seals or sealed_number(taken.job.payload) is None:
        return taken.job.payload
    try:
        return open_input(kind.sealer, kind.seals, taken.job.payload, taken.sealed)
    except KeyMissing as error:
        raise _ResultUnfit(f"the credentials of the job's address cannot be opened: {error}") from None


class _ResultUnfit(Exception):
    """A result of an earlier stage is not what this code needs; that of another worker may do with it."""


def _limit_s(kernel: Kernel, stage: Stage, taken: LeasedJob) -> float:
    """The stage's timeout, or what is left until the deadline if that is less."""
    return clip_ms(int(stage.timeout_s * 1_000), taken.job.deadline_at, kernel.now()) / 1_000


def _answered(stage: Stage, answer: object) -> tuple[Outcome, str | None]:
    if answer is None and stage.may_be_none:
        return NOTHING, None
    if isinstance(answer, type) and issubclass(answer, ANSWERS):
        why = f"The stage '{stage.name}' returned the class {answer.__name__} itself; write {answer.__name__}(...)."
        return Failed(_misfit("RESULT_INVALID", why)), None
    outcome: Answer = answer if isinstance(answer, ANSWERS) else Next(answer)
    if not isinstance(outcome, (Done, Next)):
        return outcome, None
    if unfit := no_result(stage, outcome.value):
        return Failed(_misfit("RESULT_INVALID", unfit)), None
    try:
        if outcome.value is None and isinstance(outcome, Next) and not stage.may_be_none:
            raise TypeError("None")
        text = stage.dump(outcome.value)
    except InvalidInput as error:
        return Failed(_misfit("RESULT_INVALID", str(error))), None
    except Exception as error:
        why = f"The stage '{stage.name}' returned a value that does not fit its annotation: {error}."
        return Failed(_misfit("RESULT_INVALID", why)), None
    return outcome, None if text == "null" else text


def _begin(stage: Stage, instance: Any, context: Context, arguments: list[Any]) -> Coroutine[Any, Any, Any]:
    """The handler, not yet begun: what fails here is the declaration, for no line of the handler has run."""
    try:
        return stage.run(instance, context, *arguments)
    except TypeError as error:
        raise BadDeclaration(f"The stage '{stage.name}' cannot be called as it is declared: {error}.") from error


def _raised(error: Exception, kernel: Kernel, stage: Stage) -> Failure:
    """What the handler raised, as the stage's rules, its provider or else Holdfast judges it."""
    judged = isinstance(getattr(error, "failure", None), Failure)  # by its provider already, or by itself
    own = stage.provider.classify if stage.provider is not None and not judged else None
    verdict = classify(error, now_ms=kernel.now(), own=own, rules=stage.rules)
    if isinstance(error, TimeoutError) and verdict.error_class == "NETWORK_TIMEOUT":
        verdict = replace(verdict, message=f"{verdict.message} (raised inside the stage, not by its own limit)".strip())
    return replace(verdict, stack=redact_stack(error), origin=name_origin(unwrap(error)) if verdict.unknown else "")


def _cut(error: TimeoutError, stage: Stage, taken: LeasedJob, context: Context) -> Failure:
    """The stage's own limit ended it, or the job's deadline before that."""
    ran_s = (context.now() - context.began) / 1_000
    deadline = taken.job.deadline_at
    if deadline is not None and deadline < context.began + int(stage.timeout_s * 1_000):
        message = (
            f"The job's deadline cut the stage '{stage.name}' after {ran_s:.3g} s; "
            f"its own limit of {stage.timeout_s:g} s was not reached."
        )
    else:
        message = f"The stage '{stage.name}' did not finish in time (its limit is {stage.timeout_s:g} s)."
    if context.left_behind:
        message += " It caught its cancellation and went on; it was left behind. Catch Exception, not BaseException."
    timeout = failure(Category.NETWORK, "STAGE_TIMEOUT", message, ambiguous=True, faults=True)
    return replace(stage.rules.apply(error, timeout), stack=redact_stack(error))


def standings_of(error: BaseException) -> tuple[Standing, ...]:
    """How the calls behind an exception stand to their providers' breakers; none if anything else is behind it too.

    A handler may raise an error of its own `from` the call's: that one is still about the provider."""
    if isinstance(error, BaseExceptionGroup):
        members = [standings_of(each) for each in error.exceptions]
        return tuple(chain.from_iterable(members)) if all(members) else ()
    standing = getattr(error, "standing", None)
    if isinstance(standing, Standing):
        return (standing,)
    return () if error.__cause__ is None else standings_of(error.__cause__)


def _misfit(error_class: str, message: str) -> Failure:
    return failure(Category.VALIDATION, error_class, message)

"""Runs one attempt: bind, call the handler, classify. It decides nothing and writes nothing.

The one broad `except` of Holdfast is here: whatever a handler raises becomes a classified failure, because a job must
end in a row, never in a traceback on a terminal.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from holdfast.core.budget import Standing
from holdfast.core.deadline import clip_ms, passes
from holdfast.core.failure import Category, Failure, classify, failure
from holdfast.core.outcome import Answer, Done, Failed, Held, Next, Outcome, Overdue, Snooze
from holdfast.core.redact import redact_stack
from holdfast.errors import InvalidInput, LeaseLost, ProviderHeld, StoreBusy, StoreFull, StoreUnavailable
from holdfast.kernel.claim import Taken
from holdfast.kernel.context import Context
from holdfast.kernel.eager import first_step, rest
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.kinds import ANSWERS, JobKind, Stage
from holdfast.kernel.settle import Settlement
from holdfast.kernel.trace import span

UNKNOWN_KIND_SNOOZE_S = 60.0
STORE_AWAY_SNOOZE_S = 2.0
WITHOUT_MESSAGES = (Failed, Held)
NOTHING = Next()


async def run_attempt(kernel: Kernel, taken: Taken) -> Settlement | None:
    """Run the job's present stage once. None: the lease was lost meanwhile, and there is nothing to say."""
    job = taken.job
    kind = kernel.registry.kinds.get(job.kind)
    if kind is None:
        reason = f"no app loaded here declares '{job.kind}'"
        return Settlement(job, Snooze(UNKNOWN_KIND_SNOOZE_S, reason))
    stage = kind.by_name.get(job.stage)
    if stage is None:
        return Settlement(job, Failed(_misfit("STAGE_UNKNOWN", f"'{job.kind}' has no stage '{job.stage}' any more.")))
    started = kernel.now()
    if passes(started, job.deadline_at):
        return Settlement(job, Overdue(begun=False))  # nothing is begun that could only come too late
    context = Context(kernel, kind, stage, job, started)
    try:
        with span(f"{job.kind} {job.stage}", job.trace, {"job.id": job.id, "job.attempt": job.attempt}):
            outcome, value = await _outcome(kernel, context, kind, stage, taken)
    except LeaseLost:
        return None
    return Settlement(
        job,
        outcome,
        value,
        messages=[] if isinstance(outcome, WITHOUT_MESSAGES) else context.messages,
        events=context.events,
        duration_ms=kernel.now() - started,
    )


async def _outcome(
    kernel: Kernel, context: Context, kind: JobKind, stage: Stage, taken: Taken
) -> tuple[Outcome, str | None]:
    try:
        arguments = _bind(kind, stage, taken)
    except InvalidInput as error:
        return Failed(_misfit("INPUT_INVALID", str(error))), None
    await kernel.failpoint("attempt.before_handler")
    try:
        handler = stage.run(kind.instance, context, *arguments)
        ended, answer = first_step(handler)
        if not ended:
            async with asyncio.timeout(_limit_s(kernel, stage, taken)):
                answer = await rest(handler, answer)
    except LeaseLost:
        raise
    except (StoreUnavailable, StoreBusy, StoreFull):
        return Snooze(STORE_AWAY_SNOOZE_S, "the database was away"), None  # no fault of the job: it costs nothing
    except ProviderHeld as held:
        return Held(held.provider, held.reason, held.retry_at, held.parks, held.asked, held.hold_max_ms), None
    except asyncio.CancelledError as error:
        if _asked_to_stop():
            raise
        return Failed(_raised(RuntimeError(f"cancelled from within: {error}"), kernel, stage)), None
    except Exception as error:
        return Failed(_raised(error, kernel, stage), standings_of(error)), None
    await kernel.failpoint("attempt.after_handler")
    return _answered(stage, answer)


def _asked_to_stop() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _bind(kind: JobKind, stage: Stage, taken: Taken) -> list[Any]:
    arguments = [kind.load_input(taken.job.payload)]
    for name in stage.needs:
        text = taken.results.get(name)
        try:
            arguments.append(None if text is None else kind.by_name[name].returns.validate_json(text))
        except ValidationError:
            raise InvalidInput(f"The stored result of stage '{name}' no longer fits its type.") from None
    return arguments


def _limit_s(kernel: Kernel, stage: Stage, taken: Taken) -> float:
    """The stage's timeout, or what is left until the deadline if that is less."""
    return clip_ms(int(stage.timeout_s * 1_000), taken.job.deadline_at, kernel.now()) / 1_000


def _answered(stage: Stage, answer: object) -> tuple[Outcome, str | None]:
    if answer is None:
        return NOTHING, None
    said: Answer = answer if isinstance(answer, ANSWERS) else Next(answer)
    if not isinstance(said, (Done, Next)):
        return said, None
    try:
        text = stage.dump(said.value)
    except Exception as error:
        why = f"The stage '{stage.name}' returned a value that does not fit its annotation: {type(error).__name__}."
        return Failed(_misfit("RESULT_INVALID", why)), None
    return said, None if text == "null" else text


def _raised(error: Exception, kernel: Kernel, stage: Stage) -> Failure:
    found = classify(error)
    if isinstance(error, TimeoutError) and found.error_class == "NETWORK_TIMEOUT":
        message = f"The stage '{stage.name}' did not finish in time (its limit is {stage.timeout_s:g} s)."
        found = replace(found, error_class="STAGE_TIMEOUT", message=message)
    return replace(found, stack=redact_stack(error))


def standings_of(error: BaseException) -> tuple[Standing, ...]:
    """How the calls behind an exception stand to their providers' breakers; none if anything else is behind it too.

    A handler may raise an error of its own `from` the call's: that one is still about the provider."""
    if isinstance(error, BaseExceptionGroup):
        members = [standings_of(each) for each in error.exceptions]
        return tuple(one for member in members for one in member) if all(members) else ()
    standing = getattr(error, "standing", None)
    if isinstance(standing, Standing):
        return (standing,)
    return () if error.__cause__ is None else standings_of(error.__cause__)


def _misfit(error_class: str, message: str) -> Failure:
    return failure(Category.VALIDATION, error_class, message)

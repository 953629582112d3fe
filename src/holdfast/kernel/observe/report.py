"""Says what came of attempts, after the commit: one log line for each, and the counters.

A line has the fields that a person searches by: `event`, `job_id`, `status`, `attempt`, `duration_ms`,
`provider_status`, `breaker_state` and `error_code`, which is the code that the kind's users see. A success is INFO,
what will be tried again WARNING, a death ERROR; one that its user's input caused is a WARNING: nobody need act on it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.core.decide import Decision
from holdfast.core.failure import Failure, PublicFailure
from holdfast.core.job import State
from holdfast.core.redact import redact_lines, redact_message
from holdfast.kernel.kernel import Kernel

if TYPE_CHECKING:
    from holdfast.kernel.settle import Ending


def report(
    kernel: Kernel,
    kept: Sequence[tuple[Ending, Decision]],
    refused: Sequence[tuple[Ending, Decision]],
) -> None:
    """Log and count what was settled. Called after the commit: a rollback reports nothing."""
    watch = kernel.watch
    counts: Counter[tuple[str, str]] = Counter()
    disabled = {event for event in {d.event for _, d in kept} if not watch.is_enabled(event)}
    for ending, decision in kept:
        counts[ending.job.kind, decision.event] += 1
        failure = decision.failure
        if failure is not None:
            _report_failure(kernel, ending, decision, failure, decision.event not in disabled)
        elif decision.event not in disabled:
            _log(kernel, ending, decision, None)
    _count(kernel, counts)
    for ending, _ in refused:
        watch.count("settles_refused", kind=ending.job.kind)
        watch.log("stale", job_id=ending.job.id, kind=ending.job.kind, attempt=ending.job.attempt)


def _count(kernel: Kernel, counts: Counter[tuple[str, str]]) -> None:
    for (kind, event), number in counts.items():
        kernel.watch.count("jobs_settled", number, kind=kind, event=event)
        if event == "succeeded":
            kernel.watch.count("jobs_completed", number, kind=kind)
        elif event == "retried":
            kernel.watch.count("retries_scheduled", number, kind=kind)


def _report_failure(kernel: Kernel, ending: Ending, decision: Decision, why: Failure, is_logged: bool) -> None:
    public = kernel.registry.public_failure(ending.job.kind, why, ending.job.stage)
    if decision.state is State.DEAD:
        kernel.watch.count(
            "jobs_failed", kind=ending.job.kind, code=public.code, error_class=why.error_class, cause=public.cause
        )
    if is_logged or why.unknown:
        _log(kernel, ending, decision, public)


def _log(kernel: Kernel, ending: Ending, decision: Decision, public: PublicFailure | None) -> None:
    kind = kernel.registry.kinds.get(ending.job.kind)
    stage = kind.by_name.get(ending.job.stage) if kind else None
    provider = stage.plan.provider if stage else ending.provider
    fields: dict[str, Any] = {
        "job_id": ending.job.id,
        "kind": ending.job.kind,
        "status": decision.state,
        "stage": ending.job.stage,
        "attempt": ending.job.attempt,
        "duration_ms": ending.duration_ms,
        "provider_status": ending.provider_status,
        "breaker_state": kernel.gates.get(provider) if provider else None,
        "error_code": None,
    }
    if ending.job.trace is not None:
        fields["trace"] = ending.job.trace
    if public is not None and decision.failure is not None:
        fields |= _failure_fields(public, decision.failure)
    if kind is not None:
        fields = kind.instance.log_fields(fields)
    kernel.watch.log(decision.event, level=_level(decision, public), **fields)


def _failure_fields(public: PublicFailure, why: Failure) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "error_code": public.code,
        "error_class": why.error_class,
        "error": redact_message(why.message),
    }
    if why.status is not None:
        fields["provider_status"] = why.status
    if why.unknown:
        fields["traceback"] = redact_lines(why.stack)
    return fields


def _level(decision: Decision, public: PublicFailure | None) -> int | None:
    if decision.failure is not None and decision.failure.unknown:
        return logging.ERROR
    if public is not None and public.by_user and decision.state is State.DEAD:
        return logging.WARNING
    return None

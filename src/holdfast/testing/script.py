"""How the next calls of a provider go in a test (`World.script`)."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.core.failure import Category
from holdfast.errors import CallError


@dataclass(frozen=True, slots=True)
class CallPlan:
    """One scripted call: whether your code really runs, what is raised after it, whether the worker dies."""

    really: bool = False
    error: CallError | None = None
    crash: bool = False


def plan_calls(
    *,
    rate_limited: int,
    retry_after_s: float | None,
    server_errors: int,
    timeouts: int,
    timeout_after_effect: int,
    refusals: int,
    accept_then_crash: int,
    crash: int,
) -> list[CallPlan]:
    """The calls in this order, as many of each as asked for."""
    late = _error(Category.NETWORK, "NETWORK_TIMEOUT", None)
    return [
        *[CallPlan(error=_rate_limited(retry_after_s))] * rate_limited,
        *[CallPlan(error=_error(Category.UPSTREAM, "UPSTREAM_INTERNAL", 500))] * server_errors,
        *[CallPlan(error=late)] * timeouts,
        *[CallPlan(really=True, error=late)] * timeout_after_effect,
        *[CallPlan(error=_error(Category.VALIDATION, "UPSTREAM_UNPROCESSABLE", 422))] * refusals,
        *[CallPlan(really=True, crash=True)] * accept_then_crash,
        *[CallPlan(crash=True)] * crash,
    ]


def _rate_limited(retry_after_s: float | None) -> CallError:
    wait = None if retry_after_s is None else int(retry_after_s * 1_000)
    return CallError.of(Category.RATE_LIMIT, "RATE_LIMITED", "scripted 429", retry_after_ms=wait, status=429)


def _error(category: Category, error_class: str, status: int | None) -> CallError:
    faults = category in (Category.UPSTREAM, Category.NETWORK)
    message = f"scripted {error_class}"
    return CallError.of(category, error_class, message, ambiguous=faults, faults=faults, status=status)

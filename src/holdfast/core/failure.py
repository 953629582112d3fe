"""What went wrong, as a value: nine categories, a stable `error_class`, and four yes-or-no answers.

    retryable   may the same call be made again without a person?
    ambiguous   may the effect have happened although we saw a failure?
    faults      does it speak against the provider (and so count in its breaker)?
    retry_after when the provider asks us to come back, in milliseconds from now

Every failure of an attempt passes through `classify`; nothing else in Holdfast inspects exceptions.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from holdfast.core.retry_after import retry_after_ms, should_retry


class Category(StrEnum):
    """The nine categories of the specification. The first four may be retried."""

    NETWORK = "network_transient"
    RATE_LIMIT = "rate_limit"
    UPSTREAM = "upstream_internal"
    CONFLICT = "conflict"
    VALIDATION = "validation"
    AUTH = "auth"
    NOT_FOUND = "not_found"
    POLICY = "policy_reject"
    BUG = "bug_or_config"


RETRYABLE = frozenset({Category.NETWORK, Category.RATE_LIMIT, Category.UPSTREAM, Category.CONFLICT})


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt, classified. `error_class` is stable and safe to alert on."""

    category: Category
    error_class: str
    message: str
    retryable: bool
    ambiguous: bool = False
    faults: bool = False
    retry_after_ms: int | None = None
    status: int | None = None
    stack: str = ""

    def final(self) -> Failure:
        """The same failure, reclassified as one that no retry can mend."""
        return replace(self, retryable=False)


def failure(
    category: Category,
    error_class: str,
    message: str,
    *,
    ambiguous: bool = False,
    faults: bool = False,
    retry_after_ms: int | None = None,
    status: int | None = None,
) -> Failure:
    """A failure whose retryability follows from its category."""
    return Failure(
        category=category,
        error_class=error_class,
        message=message,
        retryable=category in RETRYABLE,
        ambiguous=ambiguous,
        faults=faults,
        retry_after_ms=retry_after_ms,
        status=status,
    )


# A 429 that means "no money left", not "slow down": waiting does not mend it.
QUOTA_CODES = frozenset(
    {
        "insufficient_quota",
        "credit_balance_exhausted",
        "billing_hard_limit_reached",
        "billing_error",
        "organization_spend_limit_exceeded",
        "project_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
        "quota_exceeded",
    }
)

# These answers prove that the provider did nothing. Every other failure after the first byte is ambiguous.
NO_EFFECT_STATUSES = frozenset({400, 401, 402, 403, 404, 405, 406, 409, 410, 411, 413, 414, 415, 422, 425, 429, 451})

_BY_STATUS: Mapping[int, tuple[Category, str]] = {
    400: (Category.VALIDATION, "UPSTREAM_BAD_REQUEST"),
    401: (Category.AUTH, "AUTH_INVALID"),
    402: (Category.AUTH, "QUOTA_EXHAUSTED"),
    403: (Category.AUTH, "AUTH_DENIED"),
    404: (Category.NOT_FOUND, "UPSTREAM_NOT_FOUND"),
    408: (Category.NETWORK, "UPSTREAM_TIMEOUT"),
    409: (Category.CONFLICT, "UPSTREAM_CONFLICT"),
    410: (Category.NOT_FOUND, "UPSTREAM_GONE"),
    413: (Category.VALIDATION, "UPSTREAM_TOO_LARGE"),
    415: (Category.VALIDATION, "UPSTREAM_UNSUPPORTED_MEDIA"),
    422: (Category.VALIDATION, "UPSTREAM_UNPROCESSABLE"),
    425: (Category.CONFLICT, "UPSTREAM_TOO_EARLY"),
    429: (Category.RATE_LIMIT, "RATE_LIMITED"),
    451: (Category.POLICY, "UPSTREAM_POLICY_REJECTED"),
    500: (Category.UPSTREAM, "UPSTREAM_INTERNAL"),
    502: (Category.NETWORK, "UPSTREAM_BAD_GATEWAY"),
    503: (Category.NETWORK, "UPSTREAM_UNAVAILABLE"),
    504: (Category.NETWORK, "UPSTREAM_GATEWAY_TIMEOUT"),
    529: (Category.UPSTREAM, "UPSTREAM_OVERLOADED"),
}


def from_status(
    status: int, message: str, headers: Mapping[str, str], *, now_ms: int, code: str | None = None
) -> Failure:
    """Classify an HTTP answer of 400 or more. `code` is the provider's own error code, if it gave one."""
    assert status >= 400
    category, error_class = _BY_STATUS.get(status) or _by_hundred(status)
    if code in QUOTA_CODES:
        category, error_class = Category.AUTH, "QUOTA_EXHAUSTED"
    retryable = category in RETRYABLE
    asked = should_retry(headers)
    if asked is not None and error_class != "QUOTA_EXHAUSTED":
        retryable = asked
    return Failure(
        category=category,
        error_class=error_class,
        message=message,
        retryable=retryable,
        ambiguous=status not in NO_EFFECT_STATUSES,
        faults=status >= 500 or status == 408,
        retry_after_ms=retry_after_ms(headers, now_ms, hints=category is Category.RATE_LIMIT),
        status=status,
    )


def _by_hundred(status: int) -> tuple[Category, str]:
    if status >= 500:
        return Category.UPSTREAM, "UPSTREAM_INTERNAL"
    return Category.VALIDATION, "UPSTREAM_REJECTED"


def classify(error: BaseException) -> Failure:
    """The failure behind any exception.

    An exception that carries a `failure` classifies itself. Network errors are recognised by type or, for
    HTTP clients this module must not import, by the names of their base classes. All else is a bug of ours
    or a wrong setting: not retryable, so that a defect reaches a person instead of burning a budget.
    A group, as parallel calls raise it, is as bad as its worst member.
    """
    carried = getattr(error, "failure", None)
    if isinstance(carried, Failure):
        return carried
    if isinstance(error, BaseExceptionGroup):
        return _worst([classify(each) for each in error.exceptions])
    message = f"{type(error).__name__}: {error}"
    names = {base.__name__ for base in type(error).__mro__}
    if "PoolTimeout" in names:  # we were too busy to open a connection: no word about the provider
        return failure(Category.NETWORK, "NETWORK_POOL_EXHAUSTED", message)
    if (
        isinstance(error, ConnectionRefusedError | socket.gaierror)
        or names & _BEFORE_FIRST_BYTE
        or (isinstance(error, OSError) and error.errno in _NO_ROUTE)
    ):
        return failure(Category.NETWORK, "NETWORK_UNREACHABLE", message, faults=True)
    if isinstance(error, TimeoutError) or names & _TIMEOUTS:
        return failure(Category.NETWORK, "NETWORK_TIMEOUT", message, ambiguous=True, faults=True)
    if "ConnectionError" in names or names & _BROKEN:  # by name, for that of requests is not the built-in
        return failure(Category.NETWORK, "NETWORK_BROKEN", message, ambiguous=True, faults=True)
    return failure(Category.BUG, "BUG", message, ambiguous=True)


def _worst(failures: list[Failure]) -> Failure:
    """The first failure that no retry mends, else the one to wait longest for; ambiguous if any of them is."""
    worst = min(failures, key=lambda each: (each.retryable, -(each.retry_after_ms or 0)))
    return replace(
        worst,
        ambiguous=any(each.ambiguous for each in failures),
        faults=any(each.faults for each in failures),
    )


_NO_ROUTE = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN})
_BEFORE_FIRST_BYTE = frozenset({"ConnectError", "ConnectTimeout", "ClientConnectorError", "SMTPConnectError"})
_TIMEOUTS = frozenset({"TimeoutException", "ServerTimeoutError", "ReadTimeout", "APITimeoutError"})
_BROKEN = frozenset(
    {"NetworkError", "RemoteProtocolError", "ServerDisconnectedError", "IncompleteReadError", "IncompleteRead"}
    | {"ClientConnectionError", "ClientPayloadError", "ChunkedEncodingError", "APIConnectionError"}
)

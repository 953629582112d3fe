"""What went wrong, as a value: nine categories, a stable `error_class`, and four yes-or-no answers.

    retryable   may the same call be made again without a person?
    ambiguous   may the effect have happened although we saw a failure?
    faults      does it speak against the provider (and so count in its breaker)?
    retry_after when the provider asks us to come back, in milliseconds from now

Exceptions become failures in `core/classify.py`; answers with a status do so here.
"""

from __future__ import annotations

import re
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
    unknown: bool = False
    """Nothing recognised the exception: a bug or a wrong setting, as far as anybody knows."""
    origin: str = ""
    """Of an exception that nothing recognised: its type, and the place in the caller's own code."""

    def final(self) -> Failure:
        """The same failure, reclassified as one that no retry can fix."""
        return replace(self, retryable=False)


@dataclass(frozen=True, slots=True)
class PublicFailure:
    """A failure as the users of a kind of job are told of it. `by_user`: what they gave is the cause, and nobody who
    runs the service can fix it."""

    code: str
    by_user: bool = False

    @property
    def cause(self) -> str:
        return "input" if self.by_user else "service"


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


# "No money left", not "slow down": waiting does not fix it.
QUOTA_CODES = frozenset(
    {
        "insufficient_quota",
        "credit_balance_exhausted",
        "billing_hard_limit_reached",
        "billing_error",
        "organization_spend_limit_exceeded",
        "project_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
    }
)
# A quota whose window ends by itself and soon.
_WINDOW_CODE = re.compile(
    r"(?:daily|hourly|minute|day|hour)(?:_[a-z]+){0,3}_(?:quota|limit)"
    r"|(?:quota|limit)(?:_[a-z]+){0,3}_(?:daily|day|hour|minute)"
)
# A quota that does not say of which kind it is: a window, unless the answer speaks of money, or of a month and not of
# when that ends. insufficient_quota never is one.
_QUOTA_CODE = re.compile(
    r"(?:[a-z]+_){0,4}(?:quota|usage_limit|monthly_limit)_(?:limit_)?(?:exceeded|reached)(?:_error|_exception)?"
    r"|(?:over|exceeded)_quota"
)
_MONEY_WORDS = re.compile(r"(?i)\b(?:billing|payments?|credits?|balance|purchase|upgrade|spend(?:ing)?)\b")
_MONEY_STATUSES = frozenset({401, 402})
# "Slow down", whatever the status is. Amazon's are those that its own clients wait for.
RATE_CODES = frozenset(
    {
        "rate_limit",
        "rate_limit_error",
        "rate_limit_exceeded",
        "rate_limited",
        "user_rate_limit_exceeded",
        "too_many_requests",
        "too_many_requests_exception",
        "resource_exhausted",
        "throttled",
        "throttled_exception",
        "throttling",
        "throttling_exception",
        "request_throttled",
        "request_throttled_exception",
        "ec2_throttled_exception",
        "provisioned_throughput_exceeded_exception",
        "request_limit_exceeded",
        "bandwidth_limit_exceeded",
        "limit_exceeded_exception",
        "slow_down",
    }
)
# Codes that say more than the status they come with; Amazon answers most errors with 400.
BY_CODE: Mapping[str, tuple[Category, str]] = {
    "access_denied": (Category.AUTH, "AUTH_DENIED"),
    "access_denied_exception": (Category.AUTH, "AUTH_DENIED"),
    "expired_token": (Category.AUTH, "AUTH_INVALID"),
    "expired_token_exception": (Category.AUTH, "AUTH_INVALID"),
    "unrecognized_client_exception": (Category.AUTH, "AUTH_INVALID"),
    "invalid_signature_exception": (Category.AUTH, "AUTH_INVALID"),
    "resource_not_found_exception": (Category.NOT_FOUND, "UPSTREAM_NOT_FOUND"),
    "conditional_check_failed_exception": (Category.CONFLICT, "UPSTREAM_PRECONDITION"),
    "transaction_conflict_exception": (Category.CONFLICT, "UPSTREAM_CONFLICT"),
    "transaction_in_progress_exception": (Category.CONFLICT, "UPSTREAM_CONFLICT"),
    "prior_request_not_complete": (Category.CONFLICT, "UPSTREAM_CONFLICT"),
    "request_timeout": (Category.NETWORK, "UPSTREAM_TIMEOUT"),
    "request_timeout_exception": (Category.NETWORK, "UPSTREAM_TIMEOUT"),
    "internal_server_error": (Category.UPSTREAM, "UPSTREAM_INTERNAL"),
    "internal_failure": (Category.UPSTREAM, "UPSTREAM_INTERNAL"),
    "service_unavailable": (Category.NETWORK, "UPSTREAM_UNAVAILABLE"),
    "service_unavailable_exception": (Category.NETWORK, "UPSTREAM_UNAVAILABLE"),
    "overloaded_error": (Category.UPSTREAM, "UPSTREAM_OVERLOADED"),
}
# Only an answer that speaks of a limit is read for these words: a document about quotas is not one.
_WINDOW_WORDS = re.compile(
    r"(?i)\b(?:daily|hourly)[a-z0-9 ,-]{0,40}(?:quota|limit)|(?:quota|limit)[a-z0-9 ,-]{0,40}per[ -](?:day|hour)"
)
_LIMIT_STATUSES = frozenset({402, 403, 429})

# These answers prove that the provider did nothing. Every other failure after the first byte is ambiguous.
NO_EFFECT_STATUSES = frozenset(
    {400, 401, 402, 403, 404, 405, 406, 409, 410, 411, 412, 413, 414, 415, 422, 423, 425, 428, 429, 431, 451}
)

BY_STATUS: Mapping[int, tuple[Category, str]] = {
    400: (Category.VALIDATION, "UPSTREAM_BAD_REQUEST"),
    401: (Category.AUTH, "AUTH_INVALID"),
    402: (Category.AUTH, "QUOTA_EXHAUSTED"),
    403: (Category.AUTH, "AUTH_DENIED"),
    404: (Category.NOT_FOUND, "UPSTREAM_NOT_FOUND"),
    408: (Category.NETWORK, "UPSTREAM_TIMEOUT"),
    409: (Category.CONFLICT, "UPSTREAM_CONFLICT"),
    410: (Category.NOT_FOUND, "UPSTREAM_GONE"),
    412: (Category.CONFLICT, "UPSTREAM_PRECONDITION"),
    413: (Category.VALIDATION, "UPSTREAM_TOO_LARGE"),
    415: (Category.VALIDATION, "UPSTREAM_UNSUPPORTED_MEDIA"),
    422: (Category.VALIDATION, "UPSTREAM_UNPROCESSABLE"),
    423: (Category.CONFLICT, "UPSTREAM_CONFLICT"),
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
    status: int,
    message: str,
    headers: Mapping[str, str],
    *,
    now_ms: int | None,
    code: str | None = None,
    words: str = "",
) -> Failure:
    """Classify an HTTP answer of 400 or more. `code` is the provider's own error code, if it gave one, and `words` are
    its own about it, which are looked at and not kept."""
    assert status >= 400
    by_code = _by_code(status, words or message, headers, code)
    category, error_class = by_code or BY_STATUS.get(status) or _by_hundred(status)
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


def _by_code(status: int, words: str, headers: Mapping[str, str], code: str | None) -> tuple[Category, str] | None:
    """What the provider's code, or its words about a quota, say beyond the status."""
    word = _plain_code(code) if code else ""
    if word in QUOTA_CODES:
        return Category.AUTH, "QUOTA_EXHAUSTED"
    is_quota = _QUOTA_CODE.fullmatch(word) is not None
    speaks_of_window = (status in _LIMIT_STATUSES or is_quota) and _WINDOW_WORDS.search(words[:2_000]) is not None
    if _WINDOW_CODE.search(word) or speaks_of_window or (is_quota and _ends_by_itself(status, word, words, headers)):
        return Category.RATE_LIMIT, "QUOTA_WINDOW"
    if is_quota:
        return Category.AUTH, "QUOTA_EXHAUSTED"
    if word in RATE_CODES:
        return Category.RATE_LIMIT, "RATE_LIMITED"
    if status == 403 and word not in BY_CODE and _limit_was_hit(headers):
        return Category.RATE_LIMIT, "RATE_LIMITED"
    return BY_CODE.get(word) if status < 500 else None


def _limit_was_hit(headers: Mapping[str, str]) -> bool:
    """Whether a refusal is a limit by its headers, as GitHub says it: nothing left, or a time to come back."""
    left = next((value for name, value in headers.items() if name.lower() == "x-ratelimit-remaining"), "")
    return left.strip() == "0" or retry_after_ms(headers, 0, hints=False) is not None


def _ends_by_itself(status: int, word: str, words: str, headers: Mapping[str, str]) -> bool:
    """Whether a quota is a window that is worth waiting for: it says when it ends, or nothing says that it is money."""
    if retry_after_ms(headers, None) is not None or retry_after_ms(headers, 0) is not None:
        return True
    return status not in _MONEY_STATUSES and "month" not in word and _MONEY_WORDS.search(words[:2_000]) is None


def _plain_code(code: str) -> str:
    """`ThrottlingException`, `rateLimitExceeded` and `RATE-LIMIT-EXCEEDED` in one spelling."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", code[:100])
    return re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")


def _by_hundred(status: int) -> tuple[Category, str]:
    if status >= 500:
        return Category.UPSTREAM, "UPSTREAM_INTERNAL"
    return Category.VALIDATION, "UPSTREAM_REJECTED"

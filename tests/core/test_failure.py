"""Classification: nine categories, and the four answers that the kernel acts on."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl

import aiosmtplib
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.classify import classify
from holdfast.core.failure import QUOTA_CODES, RETRYABLE, Category, Failure, failure, from_status
from holdfast.errors import BadDeclaration, CallError, InvalidInput, NotAllowed, ProviderHeld, UnknownKind

NOW = 1_000_000


def status(code: int, headers: dict[str, str] | None = None, error_code: str | None = None) -> Failure:
    return from_status(code, "said so", headers or {}, now_ms=NOW, code=error_code)


@pytest.mark.spec("K5")
def test_four_of_the_nine_categories_are_retryable() -> None:
    assert len(Category) == 9
    assert {each.value for each in RETRYABLE} == {
        "network_transient",
        "rate_limit",
        "upstream_internal",
        "conflict",
    }
    for category in Category:
        assert failure(category, "X", "x").retryable is (category in RETRYABLE)


@pytest.mark.spec("K5", "G6", "000.33", "004.1")
@pytest.mark.parametrize(
    ("code", "category", "retryable", "faults", "ambiguous"),
    [
        (400, Category.VALIDATION, False, False, False),
        (401, Category.AUTH, False, False, False),
        (402, Category.AUTH, False, False, False),
        (403, Category.AUTH, False, False, False),
        (404, Category.NOT_FOUND, False, False, False),
        (408, Category.NETWORK, True, True, True),
        (409, Category.CONFLICT, True, False, False),
        (410, Category.NOT_FOUND, False, False, False),
        (412, Category.CONFLICT, True, False, False),
        (413, Category.VALIDATION, False, False, False),
        (415, Category.VALIDATION, False, False, False),
        (418, Category.VALIDATION, False, False, True),
        (422, Category.VALIDATION, False, False, False),
        (423, Category.CONFLICT, True, False, False),
        (425, Category.CONFLICT, True, False, False),
        (429, Category.RATE_LIMIT, True, False, False),
        (451, Category.POLICY, False, False, False),
        (500, Category.UPSTREAM, True, True, True),
        (502, Category.NETWORK, True, True, True),
        (503, Category.NETWORK, True, True, True),
        (504, Category.NETWORK, True, True, True),
        (529, Category.UPSTREAM, True, True, True),
        (599, Category.UPSTREAM, True, True, True),
    ],
)
def test_an_answer_is_classified_by_its_status(
    code: int, category: Category, retryable: bool, faults: bool, ambiguous: bool
) -> None:
    seen = status(code)
    assert (seen.category, seen.retryable, seen.faults, seen.ambiguous) == (category, retryable, faults, ambiguous)
    assert seen.status == code and seen.message == "said so"


@pytest.mark.spec("K5")
@pytest.mark.parametrize(
    ("code", "error_class"),
    [
        (400, "UPSTREAM_BAD_REQUEST"),
        (413, "UPSTREAM_TOO_LARGE"),
        (415, "UPSTREAM_UNSUPPORTED_MEDIA"),
        (418, "UPSTREAM_REJECTED"),
        (422, "UPSTREAM_UNPROCESSABLE"),
        (429, "RATE_LIMITED"),
        (500, "UPSTREAM_INTERNAL"),
        (504, "UPSTREAM_GATEWAY_TIMEOUT"),
        (529, "UPSTREAM_OVERLOADED"),
        (530, "UPSTREAM_INTERNAL"),
    ],
)
def test_the_error_class_is_stable(code: int, error_class: str) -> None:
    assert status(code).error_class == error_class


@pytest.mark.spec("K5", "K9")
@given(st.integers(400, 999))
def test_only_the_providers_faults_speak_against_it(code: int) -> None:
    seen = status(code)
    assert seen.faults is (code >= 500 or code == 408)
    assert seen.error_class == seen.error_class.upper() and " " not in seen.error_class


@pytest.mark.spec("K5")
@pytest.mark.parametrize("code", sorted(QUOTA_CODES))
def test_an_empty_purse_is_not_retried(code: str) -> None:
    seen = status(429, {"x-should-retry": "true"}, error_code=code)
    assert (seen.error_class, seen.category, seen.retryable) == ("QUOTA_EXHAUSTED", Category.AUTH, False)
    assert status(429, error_code="rate_limit_exceeded").retryable


@pytest.mark.spec("K5", "004.1")
@pytest.mark.parametrize("code", [400, 403, 429, 500, 503])
@pytest.mark.parametrize("word", ["rate_limit_exceeded", "rateLimitExceeded", "RATE-LIMIT-EXCEEDED", "Throttling"])
def test_a_rate_limit_is_one_whatever_its_status(code: int, word: str) -> None:
    seen = status(code, {"Retry-After": "7"}, error_code=word)
    assert (seen.category, seen.error_class, seen.retryable) == (Category.RATE_LIMIT, "RATE_LIMITED", True)
    assert seen.retry_after_ms == 7_000


@pytest.mark.spec("K5", "004.1")
@pytest.mark.parametrize(
    "headers",
    [{"Retry-After": "3600"}, {"x-ratelimit-reset": "1700000000"}, {"Retry-After": "Sun, 06 Nov 2033 08:49:37 GMT"}],
)
def test_a_quota_that_says_when_it_ends_is_waited_for(headers: dict[str, str]) -> None:
    seen = status(403, headers, error_code="quota_exceeded")
    assert (seen.category, seen.error_class, seen.retryable) == (Category.RATE_LIMIT, "QUOTA_WINDOW", True)
    assert seen.retry_after_ms is not None and seen.retry_after_ms > 1_000_000
    gone = status(403, headers, error_code="insufficient_quota")
    assert (gone.error_class, gone.retryable) == ("QUOTA_EXHAUSTED", False)


@pytest.mark.spec("K5", "004.1")
@pytest.mark.parametrize("text", ["Daily sending quota exceeded", "daily user limit", "too many: limit of 500 per day"])
def test_a_daily_quota_is_waited_for_without_a_header_too(text: str) -> None:
    assert from_status(403, text, {}, now_ms=NOW).error_class == "QUOTA_WINDOW"
    assert from_status(429, text, {}, now_ms=NOW, code="quota_exceeded").retryable
    assert from_status(400, text, {}, now_ms=NOW).error_class == "UPSTREAM_BAD_REQUEST"
    assert status(403, error_code="dailyLimitExceeded").error_class == "QUOTA_WINDOW"


@pytest.mark.spec("K5", "004.1")
@pytest.mark.parametrize(
    "code, word, text, is_window",
    [
        (429, "quota_exceeded", "", True),
        (403, "quotaExceeded", "The request exceeds your quota.", True),
        (400, "QUOTA_EXCEEDED", "", True),
        (503, "usage_limit_reached", "", True),
        (429, "over_quota", "", True),
        (429, "user_quota_exceeded", "", True),
        (429, "requests_per_minute_limit_exceeded", "", True),
        (429, "limit_per_day", "", True),
        (402, "quota_exceeded", "", False),
        (401, "quota_exceeded", "You have 0 left.", False),
        (429, "quota_exceeded", "Check your plan and billing details.", False),
        (429, "quota_exceeded", "Please upgrade.", False),
        (429, "monthly_quota_exceeded", "", False),
        (403, "monthly_limit_reached", "", False),
    ],
)
def test_a_quota_that_says_no_more_is_a_window_unless_it_is_about_money(
    code: int, word: str, text: str, is_window: bool
) -> None:
    seen = from_status(code, text, {}, now_ms=NOW, code=word)
    expected = (Category.RATE_LIMIT, "QUOTA_WINDOW") if is_window else (Category.AUTH, "QUOTA_EXHAUSTED")
    assert ((seen.category, seen.error_class), seen.retryable) == (expected, is_window)


@pytest.mark.spec("K4")
@pytest.mark.parametrize("code", [408, 425, 429, 503])
def test_an_answer_that_says_when_carries_it(code: int) -> None:
    assert status(code, {"Retry-After": "9"}).retry_after_ms == 9_000


@pytest.mark.spec("K5")
def test_a_spent_budget_stays_spent_whatever_the_header_says() -> None:
    assert not status(402, {"x-should-retry": "true"}).retryable


@pytest.mark.spec("K5")
def test_the_providers_own_word_on_retrying_wins() -> None:
    assert not status(503, {"x-should-retry": "false"}).retryable
    assert status(400, {"x-should-retry": "true"}).retryable
    assert status(503, {"x-should-retry": "perhaps"}).retryable


@pytest.mark.spec("K4")
def test_retry_after_travels_with_the_failure() -> None:
    assert status(503, {"Retry-After": "3"}).retry_after_ms == 3_000
    assert status(429).retry_after_ms is None


@pytest.mark.spec("K4")
def test_reset_hints_count_only_when_a_limit_was_hit() -> None:
    hints = {"x-ratelimit-reset-tokens": "6m0s"}
    assert status(429, hints).retry_after_ms == 360_000
    assert status(500, hints).retry_after_ms is None


@pytest.mark.spec("K5")
def test_a_failure_can_be_made_final() -> None:
    seen = status(503)
    assert seen.retryable and not seen.final().retryable
    assert seen.final().error_class == seen.error_class


@pytest.mark.spec("K5")
def test_an_exception_that_carries_a_failure_classifies_itself() -> None:
    carried = CallError.of(Category.POLICY, "RECIPIENT_REFUSED", "no such mailbox", status=550)
    assert classify(carried) is carried.failure
    assert classify(CallError.from_status(503, "down", {}, now_ms=NOW)).status == 503
    held = classify(ProviderHeld("llm", "its breaker is open", 5))
    assert held.retryable and not held.faults and not held.ambiguous


class FailureAttribute(Exception):
    failure = "not one of ours"


Requests = type("RequestException", (OSError,), {})
RequestsConnectionError = type("ConnectionError", (Requests,), {})
RequestsReadTimeout = type("ReadTimeout", (Requests,), {})
AiohttpError = type("ClientConnectionError", (Exception,), {})
AiohttpOSError = type("ClientOSError", (AiohttpError, OSError), {})
OpenAIConnectionError = type("APIConnectionError", (Exception,), {})
OpenAITimeout = type("APITimeoutError", (OpenAIConnectionError,), {})


@pytest.mark.spec("K5", "G6")
@pytest.mark.parametrize(
    ("error", "error_class", "faults", "ambiguous"),
    [
        (ConnectionRefusedError(), "NETWORK_UNREACHABLE", True, False),
        (socket.gaierror(-2, "unknown host"), "NETWORK_UNREACHABLE", True, False),
        (OSError(errno.EHOSTUNREACH, "no route"), "NETWORK_UNREACHABLE", True, False),
        (OSError(errno.ENETUNREACH, "no network"), "NETWORK_UNREACHABLE", True, False),
        (httpx.ConnectError("x"), "NETWORK_UNREACHABLE", True, False),
        (httpx.ConnectTimeout("x"), "NETWORK_UNREACHABLE", True, False),
        (aiosmtplib.SMTPConnectError("x"), "NETWORK_UNREACHABLE", True, False),
        (httpx.PoolTimeout("x"), "NETWORK_POOL_EXHAUSTED", False, False),
        (TimeoutError(), "NETWORK_TIMEOUT", True, True),
        (httpx.ReadTimeout("x"), "NETWORK_TIMEOUT", True, True),
        (httpx.WriteTimeout("x"), "NETWORK_TIMEOUT", True, True),
        (aiosmtplib.SMTPReadTimeoutError("x"), "NETWORK_TIMEOUT", True, True),
        (RequestsReadTimeout(), "NETWORK_TIMEOUT", True, True),
        (OpenAITimeout(), "NETWORK_TIMEOUT", True, True),
        (ConnectionResetError(), "NETWORK_BROKEN", True, True),
        (BrokenPipeError(), "NETWORK_BROKEN", True, True),
        (httpx.ReadError("x"), "NETWORK_BROKEN", True, True),
        (httpx.RemoteProtocolError("x"), "NETWORK_BROKEN", True, True),
        (asyncio.IncompleteReadError(b"", 5), "NETWORK_BROKEN", True, True),
        (aiosmtplib.SMTPServerDisconnected("x"), "NETWORK_BROKEN", True, True),
        (RequestsConnectionError(), "NETWORK_BROKEN", True, True),
        (AiohttpOSError(), "NETWORK_BROKEN", True, True),
        (OpenAIConnectionError(), "NETWORK_BROKEN", True, True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_the_networks_failures_are_retried(error: Exception, error_class: str, faults: bool, ambiguous: bool) -> None:
    seen = classify(error)
    assert (seen.category, seen.retryable) == (Category.NETWORK, True)
    assert (seen.error_class, seen.faults, seen.ambiguous) == (error_class, faults, ambiguous)


@pytest.mark.spec("K5")
@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"),
        KeyError("x"),
        FileNotFoundError("x"),
        OSError(errno.ENOSPC, "no space"),
        ssl.SSLCertVerificationError("x"),
        httpx.UnsupportedProtocol("x"),
        FailureAttribute("x"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_unknown_exception_is_retried_and_says_why(error: Exception) -> None:
    seen = classify(error)
    assert (seen.category, seen.error_class, seen.retryable, seen.unknown) == (Category.BUG, "BUG", True, True)
    assert not seen.faults and seen.ambiguous
    assert seen.message.startswith(type(error).__name__ + ": ")
    assert "unknown exception, retried because nothing says that it is permanent" in seen.message


@pytest.mark.spec("K5")
@pytest.mark.parametrize(
    ("error", "error_class"),
    [
        (BadDeclaration("no such provider"), "USAGE_ERROR"),
        (UnknownKind("x", []), "USAGE_ERROR"),
        (NotAllowed("x"), "USAGE_ERROR"),
        (InvalidInput("x"), "INPUT_INVALID"),
    ],
)
def test_what_the_caller_must_mend_is_never_retried(error: Exception, error_class: str) -> None:
    seen = classify(error)
    assert (seen.error_class, seen.retryable, seen.unknown) == (error_class, False, False)


@pytest.mark.spec("K5")
def test_a_group_is_as_bad_as_its_worst_member() -> None:
    slow = CallError.of(Category.RATE_LIMIT, "RATE_LIMITED", "slow down", retry_after_ms=9_000)
    quick = CallError.of(Category.RATE_LIMIT, "RATE_LIMITED", "slow down", retry_after_ms=1_000)
    broken = CallError.of(Category.VALIDATION, "INVALID", "no")
    waits = classify(ExceptionGroup("calls", [quick, slow, TimeoutError()]))
    assert waits.retryable and waits.retry_after_ms == 9_000
    assert waits.ambiguous and waits.faults
    ends = classify(ExceptionGroup("calls", [slow, ExceptionGroup("inner", [broken])]))
    assert ends.error_class == "INVALID" and not ends.retryable and not ends.ambiguous


@pytest.mark.spec("K9")
@pytest.mark.parametrize(
    ("category", "status", "faults"),
    [
        (Category.UPSTREAM, 503, True),
        (Category.NETWORK, 504, True),
        (Category.NETWORK, 408, True),
        (Category.UPSTREAM, 425, False),
        (Category.UPSTREAM, None, False),
        (Category.RATE_LIMIT, 503, False),
        (Category.POLICY, 550, False),
    ],
)
def test_a_status_says_whether_a_call_error_speaks_against_the_provider(
    category: Category, status: int | None, faults: bool
) -> None:
    assert CallError.of(category, "X", "said so", status=status).failure.faults is faults
    assert CallError.of(category, "X", "said so", status=status, faults=not faults).failure.faults is not faults

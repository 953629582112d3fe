"""Errors whose kind lies elsewhere than in a status: in a stream's body, in headers, in what they wrap."""

from __future__ import annotations

import urllib.error
from datetime import timedelta
from typing import Any

import httpx
import pytest
from tests.core.test_client_errors import NOW, answer, named, raised_by_httpx, summary

from holdfast.core.classify import classify

pytestmark = pytest.mark.spec("K5", "004.1")
GIVEN_UP = "too many 503 error responses"
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (OVERLOADED, ("UPSTREAM_OVERLOADED", True, None)),
        ({"error": {"type": "rate_limit_error"}}, ("RATE_LIMITED", True, None)),
        ({"type": "insufficient_quota", "code": "insufficient_quota"}, ("QUOTA_EXHAUSTED", False, None)),
        ({"type": "server_error", "code": None}, ("UPSTREAM_INTERNAL", True, None)),
        ({"error": {"type": "invalid_request_error"}}, ("UPSTREAM_BAD_REQUEST", False, None)),
    ],
)
def test_an_error_in_a_stream_that_began_well_is_known_by_its_body(body: Any, expected: Any) -> None:
    assert summary(classify(named("APIStatusError", response=answer(200), body=body, status_code=200))) == expected
    assert summary(classify(named("APIError", body=body))) == expected


def test_another_body_of_a_good_answer_says_nothing() -> None:
    assert classify(named("APIStatusError", response=answer(200), body={"error": {"type": "late"}})).unknown


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"x_ratelimit_remaining": "0", "x_ratelimit_reset": str(NOW // 1_000 + 90)}, ("RATE_LIMITED", True, 90_000)),
        ({"retry_after": "60"}, ("RATE_LIMITED", True, 60_000)),
        ({"x_ratelimit_remaining": "17"}, ("AUTH_DENIED", False, None)),
    ],
)
def test_a_403_is_a_limit_if_its_headers_say_so(headers: dict[str, str], expected: Any) -> None:
    assert summary(classify(raised_by_httpx(403, **headers), now_ms=NOW)) == expected
    denied = classify(raised_by_httpx(403, {"code": "access_denied"}, **headers), now_ms=NOW)
    assert denied.error_class == "AUTH_DENIED"


@pytest.mark.parametrize(
    ("error", "error_class"),
    [
        (urllib.error.URLError(ConnectionRefusedError()), "NETWORK_UNREACHABLE"),
        (named("MaxRetryError", reason=named("ReadTimeoutError")), "NETWORK_TIMEOUT"),
        (named("RetryError", cause=raised_by_httpx(503)), "UPSTREAM_UNAVAILABLE"),
        (RuntimeError(named("MaxRetryError", reason=Exception(GIVEN_UP))), "UPSTREAM_UNAVAILABLE"),
        (httpx.ProxyError("no"), "NETWORK_UNREACHABLE"),
        (named("ConnectionTimeout"), "NETWORK_TIMEOUT"),
    ],
)
def test_what_wraps_an_error_means_what_it_wraps(error: Exception, error_class: str) -> None:
    assert classify(error).error_class == error_class


@pytest.mark.parametrize(
    ("asked", "wait_ms"), [(33, 33_000), (0.5, 500), (timedelta(minutes=1), 60_000), ("soon", None), (True, None)]
)
def test_a_wait_that_the_error_itself_names_is_read(asked: object, wait_ms: int | None) -> None:
    assert classify(named("RetryAfter", status_code=429, retry_after=asked), now_ms=NOW).retry_after_ms == wait_ms


def test_headers_beside_the_answer_are_read() -> None:
    meta = named("Meta", headers={"retry-after": "5"})
    assert summary(classify(named("ApiError", status_code=429, meta=meta))) == ("RATE_LIMITED", True, 5_000)

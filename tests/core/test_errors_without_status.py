"""Errors whose kind lies elsewhere than in a status: in a stream's body, in headers, in what they wrap."""

from __future__ import annotations

import json
import urllib.error
import xmlrpc.client
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


def google_refusal(status: int, reason: str, **headers: str) -> Exception:
    """As Google's discovery client raises it: httplib2's answer, which is its own headers, and the body."""
    resp = type("Response", (dict,), {"status": status})(
        {name.replace("_", "-"): each for name, each in headers.items()}
    )
    body = {"error": {"code": status, "errors": [{"reason": reason}], "status": "PERMISSION_DENIED"}}
    return named("HttpError", resp=resp, content=json.dumps(body).encode(), status_code=status)


def below(name: str, base: str, **attributes: Any) -> Exception:
    return named(name, type(base, (Exception,), {}), **attributes)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (google_refusal(403, "rateLimitExceeded"), ("RATE_LIMITED", True, None)),
        (google_refusal(403, "forbidden"), ("AUTH_DENIED", False, None)),
        (google_refusal(429, "other", retry_after="9"), ("RATE_LIMITED", True, 9_000)),
        (named("GitlabGetError", response_code=503, response_body=b"{}"), ("UPSTREAM_UNAVAILABLE", True, None)),
        (named("GitlabGetError", response_code=404), ("UPSTREAM_NOT_FOUND", False, None)),
        (xmlrpc.client.ProtocolError("u", 401, "no", {}), ("AUTH_INVALID", False, None)),
        (xmlrpc.client.ProtocolError("u", 503, "no", {"Retry-After": "4"}), ("UPSTREAM_UNAVAILABLE", True, 4_000)),
        (below("RetryAfter", "TelegramError", retry_after=timedelta(seconds=30)), ("RATE_LIMITED", True, 30_000)),
        (named("ResourceExhaustedResponse", retry_after_s=9), ("RATE_LIMITED", True, 9_000)),
        (below("RateLimitExceeded", "VaultError"), ("RATE_LIMITED", True, None)),
        (below("ServiceUnavailableError", "BraintreeError"), ("UPSTREAM_UNAVAILABLE", True, None)),
        (below("InternalServerError", "VaultError"), ("UPSTREAM_INTERNAL", True, None)),
        (below("ServerSelectionTimeoutError", "AutoReconnect"), ("NETWORK_UNREACHABLE", True, None)),
        (named("AutoReconnect"), ("NETWORK_BROKEN", True, None)),
        (named("AMQPConnectionError"), ("NETWORK_UNREACHABLE", True, None)),
    ],
)
def test_clients_that_say_it_elsewhere_are_understood(error: Exception, expected: Any) -> None:
    assert summary(classify(error, now_ms=NOW)) == expected


@pytest.mark.parametrize(
    "error",
    [
        below("BadRequest", "NetworkError"),
        below("AuthenticationError", "ConnectionError"),
        named("NotFound"),
        named("Forbidden"),
        named("Later", retry_after=None),
        named("Later", retry_after="soon"),
        named("Later", retry_after=True),
        named("Later", retry_after=float("nan")),
        named("Odd", errcode=40001),
    ],
)
def test_a_refusal_below_the_networks_class_and_a_name_alone_are_unknown(error: Exception) -> None:
    judged = classify(error)
    assert judged.unknown and judged.retryable and not judged.faults

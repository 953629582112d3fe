"""The errors of the clients people use, by shape: the real ones where they are installed, else twins of their classes.

The twins carry the attributes of the real classes (openai 3, anthropic 2, botocore 1.44, stripe 16, grpcio 1.85,
aiohttp 3.14), as constructed and compared by hand against those releases.
"""

from __future__ import annotations

import email.message
import io
import json
import urllib.error
from typing import Any

import httpx
import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.classify import classify
from holdfast.core.client_error import plain_headers, read_http, status_of
from holdfast.core.failure import Failure
from holdfast.core.server_error import BY_CODE

NOW = 1_700_000_000_000
pytestmark = pytest.mark.spec("K5", "004.1")


def named(name: str, *bases: type, **attributes: Any) -> Exception:
    """An exception of a class with this name, as a library that is not installed would raise it."""
    made = type(name, bases or (Exception,), {})("said so")
    for key, value in attributes.items():
        setattr(made, key, value)
    assert isinstance(made, Exception)
    return made


def summary(found: Failure) -> tuple[str, bool, int | None]:
    return found.error_class, found.retryable, found.retry_after_ms


def answer(status: int, body: Any = None, **headers: str) -> httpx.Response:
    plain = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, headers=plain, json=body, request=httpx.Request("POST", "http://provider.test/v1"))


def raised_by_httpx(status: int, body: Any = None, **headers: str) -> Exception:
    with pytest.raises(httpx.HTTPStatusError) as caught:
        answer(status, body, **headers).raise_for_status()
    return caught.value


def raised_by_requests(status: int, body: bytes | bool = False, **headers: str) -> Exception:
    response = requests.Response()
    response.status_code = status
    response._content = body
    response.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    with pytest.raises(requests.HTTPError) as caught:
        response.raise_for_status()
    return caught.value


def raised_by_urllib(status: int, **headers: str) -> Exception:
    message = email.message.Message()
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    return urllib.error.HTTPError("http://provider.test", status, "no", message, io.BytesIO(b""))


def raised_by_aiohttp(status: int, **headers: str) -> Exception:
    base = type("ClientError", (Exception,), {})
    plain = {name.replace("_", "-"): value for name, value in headers.items()}
    return named("ClientResponseError", base, status=status, message="no", headers=plain or None, history=())


def raised_by_openai(status: int, code: str | None = None, **headers: str) -> Exception:
    body = {"message": "said so", "type": code, "param": None, "code": code}
    response = answer(status, {"error": body}, **headers)
    return named("APIStatusError", status_code=status, response=response, body=body, code=code, type=code)


def raised_by_anthropic(status: int, type_: str, **headers: str) -> Exception:
    body = {"type": "error", "error": {"type": type_, "message": "said so"}}
    return named("APIStatusError", status_code=status, response=answer(status, body, **headers), body=body)


def raised_by_botocore(status: int, code: str, **headers: str) -> Exception:
    plain = {key.replace("_", "-"): value for key, value in headers.items()}
    meta = {"HTTPStatusCode": status, "HTTPHeaders": plain, "RetryAttempts": 0}
    return named("ClientError", response={"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": meta})


def raised_by_stripe(name: str, status: int | None, code: str | None = None, **headers: str) -> Exception:
    plain = {key.replace("_", "-"): value for key, value in headers.items()}
    base = type("StripeError", (Exception,), {})
    return named(name, base, http_status=status, code=code, headers=plain, json_body=None, http_body=None)


class Code:
    """A member of grpc.StatusCode: a name, and a value that is a pair."""

    def __init__(self, name: str) -> None:
        self.name, self.value = name, (0, name.lower())


def raised_by_grpc(name: str, *trailers: tuple[str, str]) -> Exception:
    class AioRpcError(type("RpcError", (Exception,), {})):  # type: ignore[misc]
        def code(self) -> Code:
            return Code(name)

        def details(self) -> str:
            return "said so"

        def trailing_metadata(self) -> tuple[tuple[str, str], ...]:
            return trailers

    return AioRpcError("many\nlines")


MAKERS = [raised_by_httpx, raised_by_requests, raised_by_urllib, raised_by_aiohttp, raised_by_openai]


@pytest.mark.spec("K4")
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize(
    ("status", "error_class", "retryable"),
    [
        (400, "UPSTREAM_BAD_REQUEST", False),
        (401, "AUTH_INVALID", False),
        (404, "UPSTREAM_NOT_FOUND", False),
        (408, "UPSTREAM_TIMEOUT", True),
        (412, "UPSTREAM_PRECONDITION", True),
        (425, "UPSTREAM_TOO_EARLY", True),
        (429, "RATE_LIMITED", True),
        (500, "UPSTREAM_INTERNAL", True),
        (503, "UPSTREAM_UNAVAILABLE", True),
    ],
)
def test_an_http_clients_error_means_what_its_status_means(
    make: Any, status: int, error_class: str, retryable: bool
) -> None:
    seen = classify(make(status, Retry_After="45"), now_ms=NOW)
    assert summary(seen) == (error_class, retryable, 45_000)
    assert seen.status == status and seen.faults is (status >= 500 or status == 408) and not seen.unknown


def test_a_date_needs_a_clock_or_the_answers_own_date() -> None:
    late = "Tue, 14 Nov 2023 22:13:50 GMT"  # thirty seconds after NOW
    assert classify(raised_by_httpx(503, Retry_After=late), now_ms=NOW).retry_after_ms == 30_000
    assert classify(raised_by_httpx(503, Retry_After=late)).retry_after_ms is None
    dated = raised_by_httpx(503, Retry_After=late, Date="Tue, 14 Nov 2023 22:13:20 GMT")
    assert classify(dated).retry_after_ms == 30_000


def test_the_code_in_a_body_counts_if_the_body_was_read() -> None:
    limited = {"error": {"code": "rate_limit_exceeded", "message": "slow"}}
    assert classify(raised_by_httpx(403, limited)).error_class == "RATE_LIMITED"
    assert classify(raised_by_requests(403, json.dumps(limited).encode())).error_class == "RATE_LIMITED"
    assert classify(raised_by_requests(403)).error_class == "AUTH_DENIED", "nothing is read from the network"
    google = {"error": {"code": 403, "errors": [{"reason": "userRateLimitExceeded"}], "message": "m"}}
    assert classify(raised_by_httpx(403, google)).error_class == "RATE_LIMITED"


def test_a_body_that_is_no_json_is_not_read_and_does_no_harm() -> None:
    deep = b"[" * 60_000
    for body in (b"<html>", b"{", b'{"error": 5}', b"", b'{"a":' + deep, b"\xff{"):
        assert classify(raised_by_requests(503, body)).error_class == "UPSTREAM_UNAVAILABLE"


@pytest.mark.spec("K4")
@pytest.mark.parametrize(
    ("body", "wait_ms"),
    [
        ({"retry_after": 3}, 3_000),
        ({"parameters": {"retry_after": 14}}, 14_000),
        ({"error": {"details": [{"@type": "RetryInfo", "retryDelay": "20s"}]}}, 20_000),
        ({"error": {"code": "quota_exceeded", "resets_at": "2023-11-14T22:14:20Z"}}, 60_000),
        ({"error": {"retry_after": True}}, None),
        ({"error": {"details": [{"@type": "Help"}, {"retryDelay": 20}, {"retryDelay": "7s"}]}}, 7_000),
    ],
)
def test_a_wait_in_the_body_counts_too(body: Any, wait_ms: int | None) -> None:
    assert classify(raised_by_httpx(429, body), now_ms=NOW).retry_after_ms == wait_ms


@pytest.mark.parametrize(("length", "wait_ms"), [(65_536, 3_000), (65_537, None)])
def test_a_body_is_read_up_to_a_limit(length: int, wait_ms: int | None) -> None:
    body = b'{"retry_after":3}'.ljust(length)
    assert classify(raised_by_requests(429, body), now_ms=NOW).retry_after_ms == wait_ms


def test_a_streamed_answer_is_left_unread() -> None:
    class Stream(httpx.SyncByteStream):
        def __iter__(self) -> Any:
            raise AssertionError("nobody may read this")

    response = httpx.Response(503, stream=Stream(), request=httpx.Request("GET", "http://provider.test"))
    with pytest.raises(httpx.HTTPStatusError) as caught:
        response.raise_for_status()
    assert classify(caught.value).error_class == "UPSTREAM_UNAVAILABLE"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (raised_by_openai(429, "insufficient_quota", retry_after="9"), ("QUOTA_EXHAUSTED", False, 9_000)),
        (raised_by_openai(429, "rate_limit_exceeded", retry_after_ms="1500"), ("RATE_LIMITED", True, 1_500)),
        (raised_by_openai(500, None, x_should_retry="false"), ("UPSTREAM_INTERNAL", False, None)),
        (raised_by_anthropic(429, "rate_limit_error", retry_after="6"), ("RATE_LIMITED", True, 6_000)),
        (raised_by_anthropic(529, "overloaded_error"), ("UPSTREAM_OVERLOADED", True, None)),
        (raised_by_anthropic(400, "invalid_request_error"), ("UPSTREAM_BAD_REQUEST", False, None)),
        (raised_by_botocore(400, "ThrottlingException"), ("RATE_LIMITED", True, None)),
        (raised_by_botocore(400, "ProvisionedThroughputExceededException"), ("RATE_LIMITED", True, None)),
        (raised_by_botocore(503, "SlowDown", retry_after="4"), ("RATE_LIMITED", True, 4_000)),
        (raised_by_botocore(400, "ValidationException"), ("UPSTREAM_BAD_REQUEST", False, None)),
        (raised_by_botocore(400, "ExpiredTokenException"), ("AUTH_INVALID", False, None)),
        (raised_by_botocore(400, "ResourceNotFoundException"), ("UPSTREAM_NOT_FOUND", False, None)),
        (raised_by_botocore(400, "ConditionalCheckFailedException"), ("UPSTREAM_PRECONDITION", True, None)),
        (raised_by_botocore(404, "NoSuchKey"), ("UPSTREAM_NOT_FOUND", False, None)),
        (raised_by_botocore(500, "InternalError"), ("UPSTREAM_INTERNAL", True, None)),
        (raised_by_stripe("RateLimitError", 429, "rate_limit", Retry_After="2"), ("RATE_LIMITED", True, 2_000)),
        (raised_by_stripe("CardError", 402, "card_declined"), ("PAYMENT_DECLINED", False, None)),
        (raised_by_stripe("APIError", 500, stripe_should_retry="false"), ("UPSTREAM_INTERNAL", False, None)),
        (raised_by_stripe("IdempotencyError", 409, "idempotency_key_in_use"), ("UPSTREAM_CONFLICT", True, None)),
        (raised_by_stripe("APIConnectionError", None), ("NETWORK_BROKEN", True, None)),
        (named("EndpointConnectionError"), ("NETWORK_UNREACHABLE", True, None)),
        (named("NoCredentialsError"), ("AUTH_INVALID", False, None)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_a_vendors_error_means_what_it_says(error: Exception, expected: tuple[str, bool, int | None]) -> None:
    assert summary(classify(error, now_ms=NOW)) == expected


def test_a_code_that_has_a_name_but_no_pair_is_not_of_grpc() -> None:
    odd = Code("UNAVAILABLE")
    odd.value = 14  # type: ignore[assignment]
    assert classify(named("DeviceError", code=lambda: odd)).unknown


@pytest.mark.parametrize("name", sorted(BY_CODE))
def test_every_grpc_status_is_known(name: str) -> None:
    seen = classify(raised_by_grpc(name))
    assert (seen.category, seen.error_class) == BY_CODE[name] and not seen.unknown
    assert seen.message == f"AioRpcError: {name}: said so"


@pytest.mark.spec("K4")
def test_a_grpc_server_says_when_to_come_back_or_never() -> None:
    assert classify(raised_by_grpc("UNAVAILABLE", ("grpc-retry-pushback-ms", "1500"))).retry_after_ms == 1_500
    assert not classify(raised_by_grpc("UNAVAILABLE", ("grpc-retry-pushback-ms", "-1"))).retryable
    assert classify(raised_by_grpc("RESOURCE_EXHAUSTED", ("retry-after", "8"))).retry_after_ms == 8_000


def chained(outer: Exception, inner: BaseException) -> Exception:
    outer.__cause__ = inner
    return outer


def test_what_it_was_raised_from_counts_where_it_says_nothing_itself() -> None:
    seen = classify(chained(RuntimeError("cannot charge"), raised_by_httpx(503, Retry_After="5")))
    assert (seen.error_class, seen.retry_after_ms) == ("UPSTREAM_UNAVAILABLE", 5_000)
    assert seen.message.startswith("RuntimeError: cannot charge; caused by HTTPStatusError: ")
    own = classify(chained(raised_by_httpx(404), raised_by_httpx(503)))
    assert own.error_class == "UPSTREAM_NOT_FOUND"
    context = RuntimeError("a bug in an except block")
    context.__context__ = raised_by_httpx(503)
    assert classify(context).unknown, "what was merely being handled is not the cause"


def test_a_circle_of_causes_ends() -> None:
    first, second = RuntimeError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert classify(first).unknown


class Hostile(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")

    @property
    def response(self) -> Any:
        raise KeyError("no")

    @property
    def status_code(self) -> Any:
        raise OSError("no")


@pytest.mark.parametrize(
    "error",
    [
        named("X", status_code=True),
        named("X", status_code=200),
        named("X", status="503"),
        named("X", code=503),
        named("X", response={"Error": "x"}),
        named("X", headers=5, response=object()),
        named("X", sqlstate=40001),
        named("X", recipients={}),
    ],
)
def test_what_only_looks_like_an_answer_is_unknown(error: Exception) -> None:
    assert classify(error).unknown


def test_an_exception_that_cannot_be_read_is_unknown() -> None:
    seen = classify(Hostile())
    assert seen.unknown and seen.message.startswith("Hostile: (its message cannot be read)")


@given(st.one_of(st.none(), st.integers(), st.text(), st.lists(st.integers()), st.dictionaries(st.text(), st.text())))
def test_no_shape_makes_reading_fail(value: Any) -> None:
    names = ("response", "status", "status_code", "code", "headers", "body", "sqlstate", "recipients", "smtp_code")
    for name in names:
        assert classify(named("SMTPError", **{name: value, "http_status": 503})).error_class
    plain_headers(value)
    read_http(named("X", response=value, headers=value, body=value, status=404))


def test_a_good_answer_has_a_status_too() -> None:
    assert status_of(answer(204)) == 204
    assert status_of("text") is None and status_of(named("X", status="ok")) is None


def test_the_manual_that_a_client_points_at_is_no_part_of_the_message() -> None:
    message = classify(raised_by_httpx(503), now_ms=NOW).message
    assert message == "HTTPStatusError: Server error '503 Service Unavailable' for url 'http://provider.test/v1'"

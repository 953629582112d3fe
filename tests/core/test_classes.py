"""What every status, reply, SQLSTATE and gRPC code means, whole: its category, its class, and whether it is retried
(r), may have happened (a) and speaks against the provider (f). Alerts, letters and people know these names, and they
outlive a release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.core.classify import classify
from holdfast.core.failure import Failure
from holdfast.errors import CallError

pytestmark = pytest.mark.spec("K5", "004.1")
STATUSES = {
    "validation UPSTREAM_BAD_REQUEST ---": "400",
    "auth AUTH_INVALID ---": "401",
    "auth QUOTA_EXHAUSTED ---": "402",
    "auth AUTH_DENIED ---": "403",
    "not_found UPSTREAM_NOT_FOUND ---": "404",
    "validation UPSTREAM_REJECTED ---": "405-406 411 414 428 431",
    "validation UPSTREAM_REJECTED -a-": "407 416-421 424 426-427 430 432-450 452-499",
    "network_transient UPSTREAM_TIMEOUT raf": "408",
    "conflict UPSTREAM_CONFLICT r--": "409 423",
    "not_found UPSTREAM_GONE ---": "410",
    "conflict UPSTREAM_PRECONDITION r--": "412",
    "validation UPSTREAM_TOO_LARGE ---": "413",
    "validation UPSTREAM_UNSUPPORTED_MEDIA ---": "415",
    "validation UPSTREAM_UNPROCESSABLE ---": "422",
    "conflict UPSTREAM_TOO_EARLY r--": "425",
    "rate_limit RATE_LIMITED r--": "429",
    "policy_reject UPSTREAM_POLICY_REJECTED ---": "451",
    "upstream_internal UPSTREAM_INTERNAL raf": "500-501 505-528 530-599",
    "network_transient UPSTREAM_BAD_GATEWAY raf": "502",
    "network_transient UPSTREAM_UNAVAILABLE raf": "503",
    "network_transient UPSTREAM_GATEWAY_TIMEOUT raf": "504",
    "upstream_internal UPSTREAM_OVERLOADED raf": "529",
}
SQLSTATES = {
    "network_transient DB_UNAVAILABLE raf": "40003 08006 57P01 25006",
    "conflict DB_CONFLICT r--": "40001 55P03 55006",
    "conflict DB_DUPLICATE r--": "23505 23P01",
    "network_transient DB_TIMEOUT raf": "57014 25P03 25P04",
    "upstream_internal DB_OVERLOADED raf": "53300",
    "upstream_internal DB_INTERNAL raf": "58030 XX000",
    "validation DB_REFUSED ---": "22001 23502 44000 54000",
    "auth DB_AUTH ---": "28P01 42501",
    "bug_or_config DB_MISUSED ---": "42P01 3D000 3F000",
}
SQLITE = {
    "conflict DB_CONFLICT r--": "5 6 261",
    "conflict DB_DUPLICATE r--": "1555 2067",
    "upstream_internal DB_INTERNAL raf": "10 266",
    "upstream_internal DB_OVERLOADED raf": "13",
    "network_transient DB_UNAVAILABLE raf": "14",
    "validation DB_REFUSED ---": "19 275",
    "bug_or_config DB_MISUSED ---": "1",
}
GRPC = {
    "network_transient NETWORK_BROKEN ra-": "CANCELLED",
    "upstream_internal UPSTREAM_INTERNAL raf": "UNKNOWN INTERNAL DATA_LOSS",
    "validation UPSTREAM_BAD_REQUEST ---": "INVALID_ARGUMENT OUT_OF_RANGE",
    "network_transient UPSTREAM_TIMEOUT raf": "DEADLINE_EXCEEDED",
    "not_found UPSTREAM_NOT_FOUND ---": "NOT_FOUND",
    "conflict UPSTREAM_CONFLICT r--": "ALREADY_EXISTS ABORTED",
    "auth AUTH_DENIED ---": "PERMISSION_DENIED",
    "rate_limit RATE_LIMITED r--": "RESOURCE_EXHAUSTED",
    "validation UPSTREAM_REJECTED ---": "FAILED_PRECONDITION",
    "bug_or_config UPSTREAM_UNIMPLEMENTED ---": "UNIMPLEMENTED",
    "network_transient UPSTREAM_UNAVAILABLE raf": "UNAVAILABLE",
    "auth AUTH_INVALID ---": "UNAUTHENTICATED",
}
REPLIES = {
    "network_transient SMTP_UNAVAILABLE r-f": "421",
    "upstream_internal SMTP_TEMPORARY r-f": "451 454",
    "upstream_internal SMTP_TEMPORARY r--": "499",
    "bug_or_config SMTP_NOT_SUPPORTED ---": "500 502 503 504",
    "validation SMTP_BAD_REQUEST ---": "501 555",
    "auth SMTP_AUTH_FAILED ---": "530 534 535 538",
    "policy_reject SMTP_REFUSED ---": "550 551 553 554 556",
    "validation SMTP_TOO_LARGE ---": "552",
}


def flat(table: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Each key of a table with what it means; `400-402` are three."""
    for meaning, keys in table.items():
        for key in keys.split():
            first, dash, last = key.partition("-")
            numbers = range(int(first), int(last) + 1) if dash else (first,)
            yield from ((str(number), meaning) for number in numbers)


def spelled(seen: Failure) -> str:
    flags = (seen.retryable, "r"), (seen.ambiguous, "a"), (seen.faults, "f")
    return f"{seen.category} {seen.error_class} {''.join(letter if flag else '-' for flag, letter in flags)}"


def carrying(name: str, value: Any) -> Exception:
    """An error of some driver's that carries a code under this name."""
    made = type("DriverError", (Exception,), {name: value})("said so")
    assert isinstance(made, Exception)
    return made


class RpcError(Exception):
    def __init__(self, name: str) -> None:
        self._code = type("StatusCode", (), {"name": name, "value": (0, name)})()

    def code(self) -> Any:
        return self._code


class SMTPReply(Exception):
    def __init__(self, code: int) -> None:
        self.smtp_code, self.smtp_error = code, b"said so"


def test_every_status_of_an_answer() -> None:
    meant = dict(flat(STATUSES))
    assert list(meant) and set(meant) == {str(status) for status in range(400, 600)}
    seen = {status: CallError.from_status(int(status), "said so", {}, now_ms=0).failure for status in meant}
    assert {status: spelled(failure) for status, failure in seen.items()} == meant


def test_every_state_of_a_database() -> None:
    assert {state: spelled(classify(carrying("sqlstate", state))) for state, _ in flat(SQLSTATES)} == dict(
        flat(SQLSTATES)
    )
    assert {code: spelled(classify(carrying("sqlite_errorcode", int(code)))) for code, _ in flat(SQLITE)} == dict(
        flat(SQLITE)
    )


def test_every_code_of_grpc() -> None:
    assert {name: spelled(classify(RpcError(name))) for name, _ in flat(GRPC)} == dict(flat(GRPC))


def test_every_reply_of_a_mail_server() -> None:
    assert {code: spelled(classify(SMTPReply(int(code)))) for code, _ in flat(REPLIES)} == dict(flat(REPLIES))

"""What the answers of servers mean that speak no HTTP: databases, gRPC services, mail servers.

Databases are known by SQLSTATE (asyncpg, psycopg, anything on them) and by SQLite's result codes; gRPC's errors by
`code()`, which answers with a member of an enumeration; mail clients' (smtplib, aiosmtplib) by the reply: 4yz may be
tried again, 5yz may not. A reply proves that nothing was accepted. The one exception of the rule is a sending quota,
which some servers report with 5yz although it ends by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from holdfast.core.client_error import attribute, plain_headers
from holdfast.core.failure import Category, Failure, failure
from holdfast.core.retry_after import retry_after_ms, should_retry

# The whole code first, then its class (the first two characters).
BY_SQLSTATE: Mapping[str, tuple[Category, str]] = {
    "40003": (Category.NETWORK, "DB_UNAVAILABLE"),
    "40": (Category.CONFLICT, "DB_CONFLICT"),
    "55P03": (Category.CONFLICT, "DB_CONFLICT"),
    "55006": (Category.CONFLICT, "DB_CONFLICT"),
    "23505": (Category.CONFLICT, "DB_DUPLICATE"),
    "23P01": (Category.CONFLICT, "DB_DUPLICATE"),
    "08": (Category.NETWORK, "DB_UNAVAILABLE"),
    "57P": (Category.NETWORK, "DB_UNAVAILABLE"),
    "25006": (Category.NETWORK, "DB_UNAVAILABLE"),
    "57014": (Category.NETWORK, "DB_TIMEOUT"),
    "25P03": (Category.NETWORK, "DB_TIMEOUT"),
    "25P04": (Category.NETWORK, "DB_TIMEOUT"),
    "53": (Category.UPSTREAM, "DB_OVERLOADED"),
    "58": (Category.UPSTREAM, "DB_INTERNAL"),
    "XX": (Category.UPSTREAM, "DB_INTERNAL"),
    "22": (Category.VALIDATION, "DB_REFUSED"),
    "23": (Category.VALIDATION, "DB_REFUSED"),
    "44": (Category.VALIDATION, "DB_REFUSED"),
    "54": (Category.VALIDATION, "DB_REFUSED"),
    "28": (Category.AUTH, "DB_AUTH"),
    "42501": (Category.AUTH, "DB_AUTH"),
    "42": (Category.BUG, "DB_MISUSED"),
    "3D": (Category.BUG, "DB_MISUSED"),
    "3F": (Category.BUG, "DB_MISUSED"),
}

# SQLite's primary result codes; of a constraint the extended code says which.
BY_SQLITE: Mapping[int, tuple[Category, str]] = {
    5: (Category.CONFLICT, "DB_CONFLICT"),
    6: (Category.CONFLICT, "DB_CONFLICT"),
    1555: (Category.CONFLICT, "DB_DUPLICATE"),
    2067: (Category.CONFLICT, "DB_DUPLICATE"),
    10: (Category.UPSTREAM, "DB_INTERNAL"),
    13: (Category.UPSTREAM, "DB_OVERLOADED"),
    14: (Category.NETWORK, "DB_UNAVAILABLE"),
    19: (Category.VALIDATION, "DB_REFUSED"),
    1: (Category.BUG, "DB_MISUSED"),
}

# The statement did not happen, whatever came before it in its transaction.
NOTHING_HAPPENED = frozenset({"DB_CONFLICT", "DB_DUPLICATE", "DB_REFUSED", "DB_AUTH", "DB_MISUSED"})
FAULTS = frozenset({"DB_UNAVAILABLE", "DB_TIMEOUT", "DB_OVERLOADED", "DB_INTERNAL"})


def read_sql(error: BaseException, message: str) -> Failure | None:
    """The failure behind a database's error; None if it is not one, or one that says nothing (a raised exception of
    somebody's own function, for example)."""
    meaning = _by_sqlstate(error) or _by_sqlite(error) or _by_name(error)
    if meaning is None:
        return None
    category, error_class = meaning
    ambiguous = error_class not in NOTHING_HAPPENED
    return failure(category, error_class, message, ambiguous=ambiguous, faults=error_class in FAULTS)


def _by_sqlstate(error: BaseException) -> tuple[Category, str] | None:
    for name in ("sqlstate", "pgcode"):
        state = attribute(error, name)
        if isinstance(state, str) and len(state) == 5:
            return BY_SQLSTATE.get(state) or BY_SQLSTATE.get(state[:3]) or BY_SQLSTATE.get(state[:2])
    return None


def _by_sqlite(error: BaseException) -> tuple[Category, str] | None:
    code = attribute(error, "sqlite_errorcode")
    return (BY_SQLITE.get(code) or BY_SQLITE.get(code & 0xFF)) if isinstance(code, int) else None


def _by_name(error: BaseException) -> tuple[Category, str] | None:
    """A driver that lost its connection has no code to show: then the class of DB-API 2 says it, or asyncpg's own."""
    if attribute(error, "connection_invalidated") is True:
        return Category.NETWORK, "DB_UNAVAILABLE"
    for base in type(error).__mro__:
        library = base.__module__.partition(".")[0]
        if library in _DRIVERS and base.__name__ == "OperationalError":
            return Category.NETWORK, "DB_UNAVAILABLE"
        if library in _DRIVERS and base.__name__ in ("InterfaceError", "PoolTimeout"):
            closed = "clos" in str(error).lower() or base.__name__ == "PoolTimeout"
            return (Category.NETWORK, "DB_UNAVAILABLE") if closed else None
        if library == "sqlalchemy" and base.__name__ == "TimeoutError":
            return Category.NETWORK, "NETWORK_POOL_EXHAUSTED"
    return None


_DRIVERS = frozenset({"psycopg", "psycopg2", "psycopg_pool", "asyncpg", "pg8000", "MySQLdb", "pymysql", "aiomysql"})


BY_CODE: Mapping[str, tuple[Category, str]] = {
    "CANCELLED": (Category.NETWORK, "NETWORK_BROKEN"),
    "UNKNOWN": (Category.UPSTREAM, "UPSTREAM_INTERNAL"),
    "INVALID_ARGUMENT": (Category.VALIDATION, "UPSTREAM_BAD_REQUEST"),
    "DEADLINE_EXCEEDED": (Category.NETWORK, "UPSTREAM_TIMEOUT"),
    "NOT_FOUND": (Category.NOT_FOUND, "UPSTREAM_NOT_FOUND"),
    "ALREADY_EXISTS": (Category.CONFLICT, "UPSTREAM_CONFLICT"),
    "PERMISSION_DENIED": (Category.AUTH, "AUTH_DENIED"),
    "RESOURCE_EXHAUSTED": (Category.RATE_LIMIT, "RATE_LIMITED"),
    "FAILED_PRECONDITION": (Category.VALIDATION, "UPSTREAM_REJECTED"),
    "ABORTED": (Category.CONFLICT, "UPSTREAM_CONFLICT"),
    "OUT_OF_RANGE": (Category.VALIDATION, "UPSTREAM_BAD_REQUEST"),
    "UNIMPLEMENTED": (Category.BUG, "UPSTREAM_UNIMPLEMENTED"),
    "INTERNAL": (Category.UPSTREAM, "UPSTREAM_INTERNAL"),
    "UNAVAILABLE": (Category.NETWORK, "UPSTREAM_UNAVAILABLE"),
    "DATA_LOSS": (Category.UPSTREAM, "UPSTREAM_INTERNAL"),
    "UNAUTHENTICATED": (Category.AUTH, "AUTH_INVALID"),
}
# After these the server may have done what it was asked.
AMBIGUOUS = frozenset({"CANCELLED", "UNKNOWN", "DEADLINE_EXCEEDED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"})


def read_grpc(error: BaseException, message: str, now_ms: int | None) -> Failure | None:
    """The failure behind a gRPC error, with the wait that the server put into its trailing metadata."""
    name = _code_name(error)
    if name not in BY_CODE:
        return None
    category, error_class = BY_CODE[name]
    details = _called(error, "details")
    if isinstance(details, str) and details:
        message = f"{type(error).__name__}: {name}: {details}"  # its own text has many lines, with addresses in them
    ambiguous = name in AMBIGUOUS
    metadata = plain_headers(_called(error, "trailing_metadata"))
    read = failure(
        category,
        error_class,
        message,
        ambiguous=ambiguous,
        faults=ambiguous and name != "CANCELLED",
        retry_after_ms=retry_after_ms(metadata, now_ms),
    )
    return read.final() if should_retry(metadata) is False else read


def _code_name(error: BaseException) -> str:
    code = _called(error, "code")
    name = attribute(code, "name")
    return name if isinstance(name, str) and isinstance(attribute(code, "value"), tuple) else ""


def _called(error: BaseException, name: str) -> object:
    method = attribute(error, name)
    if not callable(method):
        return None
    try:
        answer: object = method()
    except Exception:  # a method of that name that means something else
        return None
    return answer


BY_REPLY: Mapping[int, tuple[Category, str]] = {
    421: (Category.NETWORK, "SMTP_UNAVAILABLE"),
    454: (Category.UPSTREAM, "SMTP_TEMPORARY"),
    500: (Category.BUG, "SMTP_NOT_SUPPORTED"),
    501: (Category.VALIDATION, "SMTP_BAD_REQUEST"),
    502: (Category.BUG, "SMTP_NOT_SUPPORTED"),
    503: (Category.BUG, "SMTP_NOT_SUPPORTED"),
    504: (Category.BUG, "SMTP_NOT_SUPPORTED"),
    530: (Category.AUTH, "SMTP_AUTH_FAILED"),
    534: (Category.AUTH, "SMTP_AUTH_FAILED"),
    535: (Category.AUTH, "SMTP_AUTH_FAILED"),
    538: (Category.AUTH, "SMTP_AUTH_FAILED"),
    550: (Category.POLICY, "SMTP_REFUSED"),
    551: (Category.POLICY, "SMTP_REFUSED"),
    552: (Category.VALIDATION, "SMTP_TOO_LARGE"),
    553: (Category.POLICY, "SMTP_REFUSED"),
    554: (Category.POLICY, "SMTP_REFUSED"),
    555: (Category.VALIDATION, "SMTP_BAD_REQUEST"),
}
FAULTY = frozenset({421, 451, 454})
_QUOTA = re.compile(
    r"(?i)\b(?:5\.4\.5|(?:daily|hourly|sending|rate)[a-z \-]{0,40}(?:limit|quota)|quota[a-z \-]{0,40}(?:day|hour))"
)


def read_smtp(error: BaseException, message: str) -> Failure | None:
    """The failure behind a mail client's error; None if no server replied."""
    if not any(base.__name__.startswith("SMTP") for base in type(error).__mro__):
        return None
    refused = attribute(error, "recipients")
    if isinstance(refused, Mapping | list | tuple) and refused:
        replies = [reply for reply in _replies(refused) if reply is not None]
        # All were refused. If one of them may be accepted later, the message is tried again for that one.
        replies.sort(key=lambda reply: reply[0] >= 500)
        return _of_reply(*replies[0], message) if replies else None
    reply = _reply(error)
    return None if reply is None else _of_reply(*reply, message)


def _of_reply(code: int, text: str, message: str) -> Failure:
    if _QUOTA.search(text[:1_000]):
        return failure(Category.RATE_LIMIT, "QUOTA_WINDOW", message, status=code)
    category, error_class = BY_REPLY.get(code) or _by_first_digit(code)
    return failure(category, error_class, message, faults=code in FAULTY, status=code)


def _by_first_digit(code: int) -> tuple[Category, str]:
    if code < 500:
        return Category.UPSTREAM, "SMTP_TEMPORARY"
    return Category.POLICY, "SMTP_REFUSED"


def _replies(refused: Mapping[object, object] | Iterable[object]) -> Iterable[tuple[int, str] | None]:
    if not isinstance(refused, Mapping):
        return [_reply(each) for each in refused]
    return [_pair(*each) for each in refused.values() if isinstance(each, tuple) and len(each) == 2]


def _reply(error: object) -> tuple[int, str] | None:
    for code_name, text_name in (("smtp_code", "smtp_error"), ("code", "message")):
        pair = _pair(attribute(error, code_name), attribute(error, text_name))
        if pair is not None:
            return pair
    return None


def _pair(code: object, text: object) -> tuple[int, str] | None:
    if not isinstance(code, int) or isinstance(code, bool) or not 400 <= code <= 599:
        return None
    return int(code), text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)

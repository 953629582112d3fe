"""What a gRPC status means. Its errors are known by `code()`, which answers with a member of an enumeration."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.client_error import attribute, plain_headers
from holdfast.core.failure import Category, Failure, failure
from holdfast.core.retry_after import retry_after_ms, should_retry

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

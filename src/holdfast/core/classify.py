"""The failure behind any exception. Nothing else in Holdfast inspects foreign exceptions.

    1. an exception that carries a `failure` classifies itself
    2. an answer with a status: HTTP clients, gRPC, databases, mail servers, each by its shape
    3. the network's failures, by type or by the names of their base classes
    4. what it was raised from, or what it wraps (`raise ... from error`, SQLAlchemy's `orig`, urllib's `reason`)
    5. all else is unknown: a bug or a setting, perhaps a passing one

An unknown exception is retried, for nobody knows that it is permanent, and its message says so. A provider's own
`classify` and a stage's `retry_on` and `never` stand before all of this.

Where in the caller's own code an unknown exception came from tells one from another:

    KeyError shop/orders.py charge      the type, the file by its last two parts, the innermost function of their own

No line number: an edit above must not make a known bug a new one. What the standard library, installed packages and
Holdfast itself raised belongs to the innermost frame that called them.

Why so: docs/decisions/0008-exceptions-by-shape.md
"""

from __future__ import annotations

import errno
import socket
import traceback
from dataclasses import dataclass, replace
from pathlib import PurePath

from holdfast.core.client_error import attribute, read_http
from holdfast.core.failure import Category, Failure, failure, from_status
from holdfast.core.provider import Classifier
from holdfast.core.server_error import read_grpc, read_smtp, read_sql

CHAIN_LENGTH_MAX = 8
UNKNOWN_NOTE = " (unknown exception, retried because nothing says that it is permanent)"
MANUAL_LINK = "\nFor more information check: "


@dataclass(frozen=True, slots=True)
class Rules:
    """What a stage says of exceptions: `retry_on` may be tried again, `never` may not.

    The class nearest to the exception's own decides. `Exception` itself speaks only of exceptions that nothing else
    recognises: `never=(Exception,)` ends a stage at its first unknown exception, and leaves a 503 to be retried."""

    retry_on: tuple[type[BaseException], ...] = ()
    never: tuple[type[BaseException], ...] = ()

    def apply(self, error: BaseException, verdict: Failure) -> Failure:
        """The failure with the stage's word on whether it is retried."""
        for base in type(error).__mro__:
            if base in _CATCH_ALL and not verdict.unknown:
                continue
            if base in self.never:
                return replace(verdict, retryable=False, message=verdict.message.removesuffix(UNKNOWN_NOTE))
            if base in self.retry_on:
                return replace(verdict, retryable=True, message=verdict.message.removesuffix(UNKNOWN_NOTE))
        return verdict


NO_RULES = Rules()
_CATCH_ALL = (Exception, BaseException)


def classify(
    error: BaseException, *, now_ms: int | None = None, own: Classifier | None = None, rules: Rules = NO_RULES
) -> Failure:
    """The failure behind any exception. `now_ms` is needed to read a `Retry-After` that is a date.

    A group, as parallel calls raise it, is as bad as its worst member."""
    if isinstance(error, BaseExceptionGroup):
        return _worst([classify(each, now_ms=now_ms, own=own, rules=rules) for each in error.exceptions])
    verdict = _judged(error, own, now_ms) if own is not None else _recognised(error, now_ms)
    return rules.apply(unwrap(error), verdict)


def text_of(error: BaseException) -> str:
    """Type and message, also of an exception whose `str` fails; without the link to a manual that httpx puts below."""
    try:
        return f"{type(error).__name__}: {str(error).partition(MANUAL_LINK)[0]}"
    except Exception:  # a broken __str__ must not hide the failure it belongs to
        return f"{type(error).__name__}: (its message cannot be read)"


def _judged(error: BaseException, own: Classifier, now_ms: int | None) -> Failure:
    """What the provider's own function says; what Holdfast says where that is silent, or broken."""
    fallback = _recognised(error, now_ms)
    try:
        verdict = own(error)
    except Exception as broken:
        return _broken(fallback, f"raised {text_of(broken)}")
    if verdict is None:
        return fallback
    if not isinstance(verdict, Failure):
        return _broken(fallback, f"returned a {type(verdict).__name__}, not a Failure or None")
    return verdict


def _broken(fallback: Failure, what: str) -> Failure:
    message = f"The provider's classify {what}; it was judging: {fallback.message}"
    return replace(fallback, category=Category.BUG, error_class="CLASSIFY_FAILED", message=message, unknown=True)


def unwrap(error: BaseException) -> BaseException:
    """The exception that a stage's rules are about: not Holdfast's own wrapping of it."""
    wrapped = isinstance(attribute(error, "failure"), Failure) and error.__cause__ is not None
    return error.__cause__ if wrapped and error.__cause__ is not None else error


def _recognised(error: BaseException, now_ms: int | None) -> Failure:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(seen) < CHAIN_LENGTH_MAX:
        seen.add(id(current))
        verdict = _known(current, now_ms)
        if verdict is not None:
            return verdict if current is error else replace(verdict, message=_joined(error, verdict.message))
        wrapped = (*(attribute(current, name) for name in _WRAPPED), *current.args[:1])
        current = next((each for each in wrapped if isinstance(each, BaseException)), current.__cause__)
    unknown = failure(Category.BUG, "BUG", f"{text_of(error)}{UNKNOWN_NOTE}", ambiguous=True)
    return replace(unknown, retryable=True, unknown=True)


def _joined(error: BaseException, cause: str) -> str:
    outer = text_of(error)
    return outer if cause in outer else f"{outer}; caused by {cause}"


def _known(error: BaseException, now_ms: int | None) -> Failure | None:
    carried = attribute(error, "failure")
    if isinstance(carried, Failure):
        return carried
    if isinstance(error, BaseExceptionGroup):
        return _worst([classify(each, now_ms=now_ms) for each in error.exceptions])
    message = text_of(error)
    mailed = read_smtp(error, message)
    if mailed is not None:
        return mailed
    answer = read_http(error)
    if answer is not None:
        if "CardError" in _names(error):
            return failure(Category.POLICY, "PAYMENT_DECLINED", message, status=answer.status)
        return from_status(answer.status, message, answer.headers, now_ms=now_ms, code=answer.code)
    return read_grpc(error, message, now_ms) or read_sql(error, message) or _network(error, message)


def _names(error: BaseException) -> set[str]:
    return {base.__name__ for base in type(error).__mro__}


def _network(error: BaseException, message: str) -> Failure | None:
    names = _names(error)
    if names & _POOLS:  # we were too busy to open a connection: no word about the provider
        return failure(Category.NETWORK, "NETWORK_POOL_EXHAUSTED", message)
    if names & _NO_NETWORK:
        return None  # a wrong certificate or password seldom fixes itself, and a proxy's may: nobody knows
    if (
        isinstance(error, ConnectionRefusedError | socket.gaierror)
        or names & _BEFORE_FIRST_BYTE
        or (isinstance(error, OSError) and error.errno in _NO_ROUTE)
    ):
        return failure(Category.NETWORK, "NETWORK_UNREACHABLE", message, faults=True)
    if isinstance(error, TimeoutError) or names & _TIMEOUTS:
        return failure(Category.NETWORK, "NETWORK_TIMEOUT", message, ambiguous=True, faults=True)
    if names & _BROKEN:  # "ConnectionError" by name, for that of requests is not the built-in
        return failure(Category.NETWORK, "NETWORK_BROKEN", message, ambiguous=True, faults=True)
    if names & _NO_CREDENTIALS:
        return failure(Category.AUTH, "AUTH_INVALID", message)
    return None


def _worst(failures: list[Failure]) -> Failure:
    """The first failure that no retry fixes, else the one to wait longest for; ambiguous if any of them is."""
    worst = min(failures, key=lambda each: (each.retryable, -(each.retry_after_ms or 0)))
    return replace(
        worst,
        ambiguous=any(each.ambiguous for each in failures),
        faults=any(each.faults for each in failures),
    )


_WRAPPED = ("orig", "reason", "cause")  # of SQLAlchemy; of urllib and urllib3; of google-api-core
_NO_ROUTE = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN})
_POOLS = frozenset({"PoolTimeout", "EmptyPoolError"})
_NO_NETWORK = frozenset(
    {"SSLCertVerificationError", "ClientConnectorCertificateError"}
    | {"BadRequest", "AuthenticationError", "AuthorizationError"}  # telegram's and redis's stand below their network's
)
_BEFORE_FIRST_BYTE = frozenset(
    {"ConnectError", "ConnectTimeout", "ClientConnectorError", "ConnectionTimeoutError", "SMTPConnectError"}
    | {"EndpointConnectionError", "ConnectTimeoutError", "NewConnectionError", "NameResolutionError", "ProxyError"}
    | {"ServerSelectionTimeoutError", "NoValidConnectionsError", "NoServersError", "AMQPConnectionError"}
)
_TIMEOUTS = frozenset(
    {"TimeoutException", "ServerTimeoutError", "ReadTimeout", "ReadTimeoutError", "APITimeoutError", "TimeoutError"}
    | {"ConnectionTimeout"}
)
_BROKEN = frozenset(
    {"NetworkError", "RemoteProtocolError", "ServerDisconnectedError", "IncompleteReadError", "IncompleteRead"}
    | {"ClientConnectionError", "ClientPayloadError", "ChunkedEncodingError", "APIConnectionError", "ConnectionError"}
    | {"HTTPClientError", "ProtocolError", "SMTPServerDisconnected", "RemoteDisconnected"}
    | {"AutoReconnect", "ConnectionClosed"}
)
_NO_CREDENTIALS = frozenset({"NoCredentialsError", "PartialCredentialsError"})


_STANDARD = str(PurePath(traceback.__file__).parent)
_HOLDFAST = str(PurePath(__file__).parent.parent)
_INSTALLED = ("site-packages", "dist-packages")
FRAMES_MAX = 200


def name_origin(error: BaseException) -> str:
    """The exception's type and its place; the type alone where no frame is the caller's own."""
    frames = traceback.walk_tb(error.__traceback__)
    codes = [frame.f_code for _, (frame, _) in zip(range(FRAMES_MAX), frames, strict=False)]
    own = [code for code in codes if _is_own(code.co_filename)]
    if not own:
        return type(error).__qualname__
    parts = PurePath(own[-1].co_filename).parts[-2:]
    return f"{type(error).__qualname__} {'/'.join(parts)} {own[-1].co_qualname}"


def _is_own(filename: str) -> bool:
    path = PurePath(filename)
    if filename.startswith("<") or any(part in _INSTALLED for part in path.parts):
        return False
    return not (path.is_relative_to(_STANDARD) or path.is_relative_to(_HOLDFAST))

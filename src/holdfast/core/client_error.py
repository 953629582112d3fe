"""Reads the errors of client libraries by their shape, so that none of them needs to be imported.

Nothing here performs input or output: a body that the client has not read yet stays unread. An attribute that raises
when it is looked at (httpx's unread bodies do) counts as absent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeGuard, cast

BODY_BYTES_MAX = 65_536
_GIVEN_UP = re.compile("too many ([45][0-9][0-9]) error responses")
"""All that urllib3 says when its own retries, or those of a session of requests, are used up."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What an exception says of the answer behind it. `code` is the provider's own word for the error, `words` its
    sentence about it: to be judged by, not to be shown."""

    status: int
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    words: str = ""


def attribute(subject: object, name: str) -> Any:
    """An attribute, or None if there is none or reading it fails."""
    try:
        return getattr(subject, name, None)
    except Exception:  # a property may raise whatever its author likes: then it tells us nothing
        return None


def read_http(error: BaseException) -> HttpAnswer | None:
    """The HTTP answer of 400 or more that the exception stands for.

    httpx, requests, openai, anthropic and google-genai carry a `response`, Google's discovery client a `resp`; aiohttp,
    urllib, stripe, python-gitlab and xmlrpc carry the status themselves; botocore carries a dictionary. An error in the
    middle of a stream came after a 200, and has its kind in its body alone. One that only says when to come back is a
    limit."""
    response = attribute(error, "response")
    if isinstance(response, Mapping):
        return _botocore(response)
    response = attribute(error, "resp") if response is None else response
    body, asked_s = _body(error, response), _asked_s(error)
    status = _status(error, response) or _BY_WORD.get(_code_in(body) or "") or _BY_CLASS.get(_class_word(error))
    if status is None and asked_s is not None:
        status = 429
    if status is None:
        return None
    holders = [attribute(each, "headers") for each in (attribute(error, "meta"), error, response)]
    holders.append(response if isinstance(response, Mapping) else None)  # httplib2's answer is its own headers
    headers = {name: value for each in holders for name, value in plain_headers(each).items()}
    headers.update(_waits_in(body))
    if asked_s is not None and "retry-after" not in headers:
        headers["retry-after-ms"] = f"{asked_s * 1_000:.0f}"
    return HttpAnswer(status, _code(error, body), headers)


def read_answer(status: int, headers: object, content: bytes) -> HttpAnswer:
    """An answer that was read by hand: with the provider's own code, and when to come back, from its body too."""
    body = _parsed(content)
    return HttpAnswer(status, _code_in(body), {**plain_headers(headers), **_waits_in(body)}, _words_in(body))


def status_of(value: object) -> int | None:
    """The HTTP status of a response object of any client, good or bad; None for anything else."""
    for name in ("status_code", "status"):
        status = _number(attribute(value, name))
        if status is not None and 100 <= status <= 599:
            return status
    return None


def plain_headers(headers: object) -> dict[str, str]:
    """Headers of any kind as plain texts with names in lower case; a repeated one keeps its first value."""
    if headers is None:
        return {}
    try:
        items = getattr(headers, "items", None)
        pairs: Iterable[Any] = cast(Iterable[Any], headers) if items is None else items()
        read = [(_text(name).lower(), _text(value)) for name, value in pairs]
    except Exception:  # not headers after all
        return {}
    return dict(reversed(read))


def _text(value: object) -> str:
    if isinstance(value, list | tuple) and value:  # gRPC's metadata and some headers: the first of several values
        value = value[0]
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _number(value: object) -> int | None:
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _asked_s(error: BaseException) -> float | None:
    """The wait that the error itself names."""
    for name in ("retry_after", "retry_after_s"):
        asked = attribute(error, name)
        asked = asked.total_seconds() if isinstance(asked, timedelta) else asked
        if isinstance(asked, int | float) and not isinstance(asked, bool) and 0 <= asked < float("inf"):
            return asked
    return None


def _class_word(error: BaseException) -> str:
    """The name nearest to the error's own class that is one of a passing trouble, or empty."""
    words = (re.sub("(?:Error|Exception|Response)$", "", base.__name__) for base in type(error).__mro__)
    return next((word for word in words if word in _BY_CLASS), "")


def _status(error: BaseException, response: object) -> int | None:
    candidates = [attribute(response, name) for name in ("status_code", "status")]
    candidates += [attribute(error, name) for name in _STATUS_NAMES]
    statuses = [status for status in map(_number, candidates) if status is not None and 400 <= status <= 599]
    if statuses:
        return statuses[0]
    if given_up := _GIVEN_UP.fullmatch(str(error.args[0])) if error.args else None:
        return int(given_up[1])
    # A bare `code` means HTTP only beside headers or a response; else it may be anybody's number.
    if attribute(error, "headers") is None and response is None and not hasattr(type(error), "grpc_status_code"):
        return None
    code = _number(attribute(error, "code"))
    return code if code is not None and 400 <= code <= 599 else None


def _botocore(response: Mapping[Any, Any]) -> HttpAnswer | None:
    meta, error = response.get("ResponseMetadata"), response.get("Error")
    if not isinstance(meta, Mapping) or not isinstance(error, Mapping):
        return None
    status = _number(meta.get("HTTPStatusCode"))
    code = error.get("Code")
    # A service that answered by its own code alone (some batch interfaces do) refused what it was asked.
    known = status if status is not None and 400 <= status <= 599 else 400
    return HttpAnswer(known, code if isinstance(code, str) else None, plain_headers(meta.get("HTTPHeaders")))


def _body(error: BaseException, response: object) -> Mapping[str, Any]:
    for parsed in (attribute(error, "body"), attribute(error, "json_body"), attribute(error, "details")):
        if isinstance(parsed, Mapping):
            return parsed
    # What was read already: a response's `content` would read the rest from the network, an error's own is there.
    read = (attribute(response, "_content"), attribute(error, "content"), attribute(error, "response_body"))
    return next((_parsed(raw) for raw in read if isinstance(raw, bytes)), {})


def _parsed(raw: bytes) -> Mapping[str, Any]:
    if len(raw) > BODY_BYTES_MAX or raw.lstrip()[:1] != b"{":
        return {}
    try:
        read = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, Mapping) else {}


def _code(error: BaseException, body: Mapping[str, Any]) -> str | None:
    """The provider's code: from the error itself, or from its body."""
    # An error with a numeric status says the same number again as its code, and aiohttp warns who reads that.
    own = None if _number(attribute(error, "status")) is not None else attribute(error, "code")
    return own if _is_code(own) else _code_in(body)


def _code_in(body: Mapping[str, Any]) -> str | None:
    """The provider's word for the error: its `code`, `reason`, `status`, `type` or `name`, the innermost first."""
    inner = body.get("error")
    places: list[Mapping[str, Any]] = [inner] if isinstance(inner, Mapping) else []
    places.append(body)
    nested = places[0].get("errors")
    if isinstance(nested, list) and nested and isinstance(nested[0], Mapping):
        places.insert(0, nested[0])  # Google's older interfaces say the reason only here
    candidates = [place.get(name) for name in ("code", "reason", "status", "type", "name") for place in places]
    return next((word for word in (*candidates, inner) if _is_code(word)), None)


def _is_code(word: object) -> TypeGuard[str]:
    return isinstance(word, str) and 0 < len(word) <= 100


def _words_in(body: Mapping[str, Any]) -> str:
    places = [each for each in (body.get("error"), body) if isinstance(each, Mapping)]
    return next((place["message"] for place in places if isinstance(place.get("message"), str)), "")


def _waits_in(body: Mapping[str, Any]) -> dict[str, str]:
    """What a body says about when to come back, in the words of headers."""
    inner = body.get("error")
    places = [each for each in (body, inner, body.get("parameters")) if isinstance(each, Mapping)]
    waits: dict[str, str] = {}
    for place in places:
        for name, header in _BODY_WAITS.items():
            if isinstance(place.get(name), str | int | float) and not isinstance(place[name], bool):
                waits.setdefault(header, str(place[name]))
        details = place.get("details")
        for detail in details if isinstance(details, list) else ():
            if isinstance(detail, Mapping) and isinstance(detail.get("retryDelay"), str):
                waits.setdefault("x-body-reset", detail["retryDelay"])
    return waits


_BY_WORD = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "insufficient_quota": 429,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The status that anthropic and openai give what they report in the middle of a stream."""
_STATUS_NAMES = ("status_code", "status", "http_status", "response_code", "errcode")
_BY_CLASS = {
    "TooManyRequests": 429,
    "RateLimitExceeded": 429,
    "RateLimited": 429,
    "RateLimit": 429,
    "ResourceExhausted": 429,
    "InternalServer": 500,
    "BadGateway": 502,
    "ServiceUnavailable": 503,
    "GatewayTimeout": 504,
}
"""Classes that are called after a passing trouble, of clients that keep no status (hvac, braintree). One that is called
after a refusal says nothing here: it may be anybody's own, and would never be tried again."""
_BODY_WAITS = {
    "retry_after_ms": "retry-after-ms",
    "retry_after": "retry-after",
    "retryAfter": "retry-after",
    "reset_at": "x-body-reset",
    "resets_at": "x-body-reset",
    "reset_time": "x-body-reset",
}

"""Every error an HTTP client sees: `application/problem+json` with a `code` that never changes its meaning.

    raise Problem(409, "ALREADY_CLAIMED", "Another clerk has claimed this order.", claimedBy="c-7")

The kernel's own exceptions become problems by the table below; what nobody expected becomes 500 INTERNAL, is logged,
and tells the client nothing. A system whose interface promises codes of its own translates the problems below its
paths (`System.problems`), whoever raised them: a route, the framework or the guard.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import Scope

from holdfast import errors
from holdfast.core.redact import redact_text
from holdfast.http.json_body import is_json

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1

logger = logging.getLogger("holdfast.http")

# The first line whose class fits decides. A detail of None means: the exception's own sentence is fit for a client.
KNOWN: Sequence[tuple[type[errors.HoldfastError], int, str, str | None]] = (
    (errors.InvalidInput, 422, "INVALID_INPUT", None),
    (errors.NotFound, 404, "NOT_FOUND", None),
    (errors.NotAllowed, 409, "NOT_ALLOWED", None),
    (errors.SystemAmbiguous, 409, "SYSTEM_AMBIGUOUS", None),
    (errors.IdempotencyConflict, 409, "IDEMPOTENCY_KEY_REUSED", None),
    (errors.UnknownKind, 422, "INVALID_INPUT", None),
    (errors.LeaseLost, 409, "NOT_ALLOWED", "Another attempt owns this job now."),
    (errors.StoreStandby, 503, "STORE_UNAVAILABLE", "The database here is a standby, which is read only."),
    (errors.StoreReadOnly, 503, "STORE_UNAVAILABLE", "The database here is read only."),
    (errors.StoreError, 503, "STORE_UNAVAILABLE", "The database cannot answer at present; try again."),
    (errors.TransportError, 503, "TRANSPORT_UNAVAILABLE", "The message broker cannot answer at present; try again."),
    (errors.CallError, 502, "PROVIDER_FAILED", "A provider behind this request failed; try again."),
)

CODES: Mapping[int, str] = {
    400: "BAD_REQUEST",
    401: "UNAUTHENTICATED",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    409: "NOT_ALLOWED",
    413: "BODY_TOO_LARGE",
    415: "UNSUPPORTED_MEDIA_TYPE",
    422: "INVALID_INPUT",
    429: "RATE_LIMITED",
}


class Problem(HTTPException):
    """An answer that is an error. Extra fields stand beside `code` and `detail` in the body.

    It is a Starlette HTTPException so that the framework lets it through wherever it is raised, also while a body
    is being read."""

    def __init__(
        self, status: int, code: str, detail: str, *, headers: Mapping[str, str] | None = None, **extra: Any
    ) -> None:
        super().__init__(status, detail, dict(headers) if headers else None)
        self.status = status
        self.code = code
        self.extra = extra


class ProblemResponse(JSONResponse):
    media_type = MEDIA_TYPE


Translation = tuple[str, Callable[[Problem], Problem]]
"""A path, and what the problems at and below it are to become."""


def install(app: FastAPI, translations: Sequence[Translation] = ()) -> None:
    """Answer every exception of this app with a problem."""
    app.state.problem_translations = tuple(translations)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_exception_handler(errors.HoldfastError, _of_holdfast)


def respond(problem: Problem, scope: Scope) -> ProblemResponse:
    """The answer to the request of this scope."""
    return response_of(_translated(problem, scope))


def response_of(problem: Problem) -> ProblemResponse:
    """The answer as it stands."""
    body = {
        "type": "about:blank",
        "title": _title(problem.status),
        "status": problem.status,
        "code": problem.code,
        "detail": problem.detail,
        **problem.extra,
    }
    return ProblemResponse(body, problem.status, headers=problem.headers)


def _translated(problem: Problem, scope: Scope) -> Problem:
    translations: Sequence[Translation] = scope["app"].state.problem_translations
    asked = path_below(scope)
    for path, translate in translations:
        if asked == path or asked.startswith(f"{path}/"):
            return translate(problem)
    return problem


def path_below(scope: Scope) -> str:
    """The path below the mount: what it would be if the application stood at the top."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def of_exception(error: BaseException) -> Problem:
    """The problem that an exception is to a client. What is not known is logged here, redacted."""
    if isinstance(error, Problem):
        return error
    for kind, status, code, detail in KNOWN:
        if isinstance(error, kind):
            headers = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else None
            if status >= 500:
                logger.warning("request failed: %s", redact_text(str(error)))
            return Problem(status, code, detail or str(error), headers=headers)
    logger.error("request failed: %s", redact_text(repr(error)), exc_info=error)
    return Problem(500, "INTERNAL", "Something went wrong here; it was logged.")


async def _of_http(request: Request, error: Exception) -> ProblemResponse:
    assert isinstance(error, HTTPException)
    if isinstance(error, Problem):
        return respond(error, request.scope)
    code = CODES.get(error.status_code, "INTERNAL" if error.status_code >= 500 else "BAD_REQUEST")
    detail = _UNREADABLE if error.detail == "There was an error parsing the body" else str(error.detail)
    return respond(Problem(error.status_code, code, detail, headers=error.headers), request.scope)


_NO_OBJECT = frozenset({"model_attributes_type", "model_type", "dict_type", "dataclass_type"})
_SEND_JSON = "Send the body as JSON, with Content-Type: application/json."
_UNREADABLE = "The body cannot be read: it is not JSON in UTF-8, or not the form that its Content-Type says."


async def _of_validation(request: Request, error: Exception) -> ProblemResponse:
    assert isinstance(error, RequestValidationError)
    field, detail = _complaint(error, request.headers.get("content-type", "-"))
    return respond(Problem(422, "INVALID_INPUT", detail, field=field), request.scope)


def _complaint(error: RequestValidationError, content_type: str) -> tuple[str, str]:
    """The field that is wrong first, and what is wrong with it."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return "body", _where_json_breaks(first, error.body)
    if tuple(first["loc"]) == ("body",) and first["type"] in _NO_OBJECT:
        return "body", "The body must be a JSON object." if is_json(content_type) else _SEND_JSON
    parts = [str(part) for part in first["loc"] if part not in ("body", "query", "path", "header")]
    message = first["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if first["type"] == "union_tag_not_found":  # the field that says which kind of value this is
        parts.append(first["ctx"]["discriminator"].strip("'"))
        message = "Field required"
    field = ".".join(parts) or "body"
    return field, f"{field}: {message}."


def _where_json_breaks(first: Mapping[str, Any], body: object) -> str:
    """A sentence with the place where reading stopped, by lines: a character's number is no help in a long body."""
    why = str(first.get("ctx", {}).get("error", "it cannot be read"))
    position = first["loc"][-1]
    if not isinstance(body, str) or not isinstance(position, int):
        return f"The body is not valid JSON: {why}."
    before = body[:position]
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    at = "it ends too early" if not body[position:].strip() else f"{why[:1].lower()}{why[1:]}"
    return f"The body is not valid JSON: line {line}, column {column}: {at}."


async def _of_holdfast(request: Request, error: Exception) -> ProblemResponse:
    return respond(of_exception(error), request.scope)


def _title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"

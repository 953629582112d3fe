"""The outermost layer: bodies have a limit and hold nothing that breaks a reader, answers have safe headers, and
nothing unexpected reaches a client.

A route whose body may be larger reads the request itself and says so first: `allow_body(request, bytes_max)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fastapi import FastAPI, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.http.buckets import Callers
from holdfast.http.json_body import is_json, json_complaint
from holdfast.http.problem import Problem, of_exception, path_below, respond

BODY_BYTES_MAX = 1024 * 1024
STRANGER_BYTES_MAX = 16_384
"""What is read of a body before its sender is known: to read JSON costs up to a fifth of a second of CPU for 1 MiB."""
STREAM_ENDS = ("/events", "/changes")
"""How the paths end that take a ticket."""
METER = "holdfast.body"
QUERY = "holdfast.query"

# Neither scripts nor styles may stand in a page: what a user or a provider wrote can never run.
SECURE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "media-src blob:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
_SECURE = [(name.lower().encode(), value.encode()) for name, value in SECURE_HEADERS.items()]
_NO_STORE = (b"cache-control", b"no-store")
# Given twice, a proxy and we could each read another one.
_ONCE = (b"host", b"authorization", b"content-type", b"idempotency-key", b"last-event-id", b"range")


@dataclass(slots=True)
class BodyMeter:
    """How much of a request's body may come, and how much has. What is limited is held in memory as it comes."""

    bytes_max: int | None
    declared: int
    seen: int = 0
    ended: bool = False
    is_vouched: bool = False
    """Whether the sender is known, or whoever reads it has seen a right to send it."""
    holder: str = ""
    held: int = 0

    def take(self, size: int) -> None:
        self.seen += size
        if self.bytes_max is not None and max(self.seen, self.declared) > self.bytes_max:
            raise Problem(413, "BODY_TOO_LARGE", f"The body is over the limit of {self.bytes_max:,} bytes.")

    def hold(self, scope: Scope, size: int) -> None:
        """Count what is kept in memory, beside what the caller sends otherwise."""
        if self.bytes_max is not None:
            callers: Callers = scope["app"].state.callers
            self.holder = callers.hold(scope, size, self.held)
            self.held += size

    def forget(self, callers: Callers) -> None:
        if self.held:
            callers.release(self.holder, self.held)


class Guard:
    def __init__(self, app: ASGIApp, bytes_max: int = BODY_BYTES_MAX) -> None:
        self.app = app
        self.bytes_max = bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope["query_string"] = scope.pop(QUERY, scope["query_string"])
        callers: Callers = scope["app"].state.callers
        begun = False

        async def guarded_send(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                callers.charge_address(scope)
                message["headers"] = _secured(message.get("headers", ()), path_below(scope))
            await send(message)

        try:
            _check_target(scope)
            headers = dict(reversed(scope["headers"]))  # of several by one name the first
            _check_headers(scope, headers)
            await _check_caller(scope, callers)
            await self.app(scope, _metered(scope, headers, receive, self.bytes_max), guarded_send)
        except Exception as error:  # the last resort of every request; an answer under way can only be cut off
            problem = of_exception(error)
            if begun:
                raise
            await respond(problem, scope)(scope, receive, guarded_send)
        finally:
            if METER in scope:
                scope[METER].forget(callers)


class Web(FastAPI):
    """An application whose traces never show a query: a ticket or a pasted key may stand in it.

    The framework writes the whole address into its span before anything of ours runs, so the query is put aside
    for that moment; the guard puts it back."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope[QUERY], scope["query_string"] = scope["query_string"], b""
        await super().__call__(scope, receive, send)


def allow_body(request: Request, bytes_max: int | None) -> None:
    """Let this request's body be up to `bytes_max` bytes; None leaves the limit, and the memory, to the caller.

    Only for a handler that reads the body itself, before it does, and once it knows that the sender may send one."""
    meter: BodyMeter = request.scope[METER]
    meter.bytes_max, meter.is_vouched = bytes_max, True


def body_ended(request: Request) -> bool:
    """Whether the whole body has come: to ask for more would only wait for the client to leave."""
    meter: BodyMeter = request.scope[METER]
    return meter.ended


def _metered(scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, bytes_max: int) -> Receive:
    declared = headers.get(b"content-length", b"")
    meter = scope[METER] = BodyMeter(bytes_max, int(declared) if declared.isdigit() else 0)
    parts: list[bytes] | None = [] if is_json(headers.get(b"content-type", b"").decode("latin-1")) else None

    async def metered() -> Message:
        meter.take(0)  # a length that is declared too large is refused before a byte is read
        if meter.declared > STRANGER_BYTES_MAX:
            await _check_sender(scope, meter)
        message = await receive()
        if message["type"] == "http.request":
            body = message.get("body", b"")
            meter.take(len(body))
            if meter.seen > STRANGER_BYTES_MAX:
                await _check_sender(scope, meter)
                meter.hold(scope, len(body))
            meter.ended = not message.get("more_body", False)
            if parts is not None and body:
                parts.append(body)
            if parts and meter.ended and (complaint := json_complaint(b"".join(parts))) is not None:
                raise Problem(422, "INVALID_INPUT", f"The body {complaint}.", field="body")
        return message

    return metered


async def _check_sender(scope: Scope, meter: BodyMeter) -> None:
    """The framework reads a body before a route asks who sends it: a long one is read of those only who are known."""
    if not meter.is_vouched:
        who = await scope["app"].state.auth.caller(Request(scope))
        scope["app"].state.callers.admit_user(scope, who.sub)
        meter.is_vouched = True


async def _check_caller(scope: Scope, callers: Callers) -> None:
    """From an address that has used up what it may ask, only those are let in who are known by name, and counted by it,
    whatever page they ask for. A ticket is redeemed where its stream is opened."""
    try:
        callers.check_address(scope)
    except Problem as spent:
        if b"ticket=" in scope["query_string"] and path_below(scope).endswith(STREAM_ENDS):
            return
        try:
            who = await scope["app"].state.auth.caller(Request(scope))
        except Problem:
            raise spent from None
        callers.admit_user(scope, who.sub)


def _check_target(scope: Scope) -> None:
    if "\0" in scope["path"] or b"%00" in scope["query_string"]:
        raise Problem(400, "BAD_REQUEST", "The address contains a NUL character.")


def _check_headers(scope: Scope, headers: Mapping[bytes, bytes]) -> None:
    if len(headers) < len(scope["headers"]):
        names = [name for name, _ in scope["headers"]]
        twice = next((name.decode() for name in _ONCE if names.count(name) > 1), None)
        if twice is not None:
            raise Problem(400, "BAD_REQUEST", f"The header {twice.title()} is given more than once.")
    if b"host" not in headers and scope["http_version"] == "1.1":
        raise Problem(400, "BAD_REQUEST", "The header Host is missing.")


def _secured(headers: Iterable[tuple[bytes, bytes]], path: str) -> list[tuple[bytes, bytes]]:
    """The headers of an answer, with the safe ones that it does not set itself. As bytes, for every answer pays."""
    kept = [(name.lower(), value) for name, value in headers]
    names = {name for name, _ in kept}
    if b"server" in names:
        kept = [(name, value) for name, value in kept if name != b"server"]
    added = [*_SECURE, _NO_STORE] if path.startswith("/api/") else _SECURE
    return kept + [header for header in added if header[0] not in names]

"""The server's side of a connection: uvicorn's, with limits in time and number.

    accepted --header_s--> request read --body_s, more for what has come--> answered --keep_alive_s--> the next request
        |-- too many connections: 503 and closed            |-- a reader that stands still for write_s: closed

A client that is too slow is answered 408 and closed. Times are those of the client's own doing: while the application
is slow to read a body, or to answer, nothing is counted.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holdfast.settings import Settings

HEADER_BYTES_MAX = 65_536
BODY_BYTES_PER_SECOND = 16_384
WRITE_S = 30.0
LINGER_S = 1.0
FILES_KEPT = 40
"""Open files that are left to databases, logs and the broker where the system allows only few."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many connections there may be, and how long a client may take for each part of one."""

    connections_max: int
    header_s: float
    body_s: float
    keep_alive_s: float
    write_s: float = WRITE_S


def connection_limits(settings: Settings) -> ConnectionLimits:
    """The limits of the settings, and of the open files that this process may have."""
    connections_max = min(settings.connections_max, max(8, _files_max() - FILES_KEPT))
    return ConnectionLimits(connections_max, settings.header_s, settings.body_s, settings.keep_alive_s)


def _files_max() -> int:
    try:
        import resource
    except ImportError:  # a system without such limits
        return 1 << 30
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 30 if allowed == resource.RLIM_INFINITY else allowed


def limited_protocol(limits: ConnectionLimits) -> type[HttpToolsProtocol]:
    """The protocol class that keeps these limits."""
    return type("LimitedConnection", (_Connection,), {"limits": limits})


class _Connection(HttpToolsProtocol):
    limits: ConnectionLimits

    def __init__(self, config: uvicorn.Config, *given: Any, **named: Any) -> None:
        super().__init__(config, *given, **named)
        self._timer: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._in_message = False
        self._header_bytes = 0
        self._body_bytes = 0
        self._body_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections_max:
            self._close_with(b"503 Service Unavailable", b"Too many connections; try again.", b"retry-after: 5\r\n")
        else:
            self._arm(self.limits.header_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        answered = self.cycle is None or self.cycle.response_complete
        if not self._in_message and self._timer is None and answered:
            self._arm(self.limits.header_s)  # also for bytes that begin nothing
        if not self._body_since:
            self._header_bytes += len(data)
        super().data_received(data)
        if not self._body_since and self._header_bytes > HEADER_BYTES_MAX and not self.transport.is_closing():
            self._close_with(b"431 Request Header Fields Too Large", b"The header is too large.")

    def on_message_begin(self) -> None:
        self._in_message = True
        if self._timer is None:
            self._arm(self.limits.header_s)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._header_bytes = self._body_bytes = 0
        self._body_since = self.loop.time()
        self._arm(self.limits.body_s)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._disarm()
        self._in_message = False
        self._body_since = 0.0
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(self.limits.write_s, self.transport.abort)

    def resume_writing(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        super().resume_writing()

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._timer = self.loop.call_later(seconds, self._overdue)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _overdue(self) -> None:
        self._timer = None
        if self.flow.read_paused:
            self._arm(self.limits.body_s)  # it is the application that is slow
            return
        if self._body_since:
            earned_s = self.limits.body_s + self._body_bytes / BODY_BYTES_PER_SECOND
            left_s = self._body_since + earned_s - self.loop.time()
            if left_s > 0:
                self._arm(left_s)
                return
        self._close_with(b"408 Request Timeout", b"The request took too long to arrive.")

    def _close_with(self, status: bytes, said: bytes, header: bytes = b"") -> None:
        """Answer, if no answer has begun, and close; a client that does not take it is cut off."""
        self._disarm()
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            length = str(len(said)).encode()
            kind = b"content-type: text/plain; charset=utf-8\r\ncontent-length: " + length + b"\r\n"
            self.transport.write(b"HTTP/1.1 " + status + b"\r\n" + kind + header + b"connection: close\r\n\r\n" + said)
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()
        self.loop.call_later(LINGER_S, self.transport.abort)

"""The server's side of a connection: uvicorn's, with limits in time and number.

    accepted --header_s--> request read --body_s, more for what has come--> answered --keep_alive_s--> the next request
        |-- too many connections: 503 and closed            |-- a reader that stands still for write_s: closed
                                                            |-- a body still coming: linger_s, then closed

A client that is too slow is answered 408 and closed. Times are those of the client's own doing: while the application
is slow to read a body, or to answer, nothing is counted. What frames a body (extensions and sizes of chunks, trailers)
is counted like a header, and trailers are dropped: an application never sees them.

When all connections are taken, the address that holds most of them gives up one on which no whole request is being
answered, so that nobody can take the server away from the others; if there is none, the newcomer is answered 503.

Why so: docs/decisions/0024-limits-in-the-server.md
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from dataclasses import dataclass
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holdfast.http.buckets import subscriber_of
from holdfast.settings import Settings

HEADER_BYTES_MAX = 65_536
BODY_BYTES_PER_SECOND = 16_384
WRITE_S = 30.0
LINGER_S = 1.0
PIECES_MAX, PIECE_BYTES_MIN = 10_000, 64
"""So many pieces of a body may be small; those beyond must bring that many bytes each, for every one costs a call."""
FILES_KEPT = 40
FILES_SPARE = 16
"""Open files that are left to databases, logs, children and the broker where the system allows only few: so many in
all, and so many beside those that are open when the server begins."""
BACKLOG = 2_048


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many connections there may be, and how long a client may take for each part of one."""

    connections_max: int
    header_s: float
    body_s: float
    keep_alive_s: float
    write_s: float = WRITE_S
    linger_s: float = 5.0
    backlog: int = BACKLOG
    """How many that the system has accepted are taken at once."""


def connection_limits(settings: Settings) -> ConnectionLimits:
    """The limits of the settings, and of the open files that this process may have."""
    room = _files_max() - max(FILES_KEPT, _files_open() + FILES_SPARE)
    connections_max = min(settings.connections_max, max(4, room * 4 // 5))
    # So many are accepted at once, before any of them can be refused: they need files too.
    backlog = min(BACKLOG, max(4, room - connections_max))
    return ConnectionLimits(connections_max, settings.header_s, settings.body_s, settings.keep_alive_s, backlog=backlog)


def _files_max() -> int:
    try:
        import resource
    except ImportError:  # a system without such limits
        return 1 << 30
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 30 if allowed == resource.RLIM_INFINITY else allowed


def _files_open() -> int:
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:  # a system that does not tell
        return 0


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
        self._body_bytes = self._body_pieces = self._framing_bytes = 0
        self._body_since = 0.0
        self._origin = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._origin = subscriber_of(self.client[0]) if self.client else ""
        if len(self.connections) > self.limits.connections_max and not self._make_room():
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
        body_since, body_bytes = self._body_since, self._body_bytes
        if not body_since:
            self._header_bytes += len(data)
        super().data_received(data)
        if body_since and self._body_since == body_since:
            self._framing_bytes += len(data) - (self._body_bytes - body_bytes)
        self._check_sizes()

    def _check_sizes(self) -> None:
        """Whether a header, or what frames a body, is more than any honest client sends."""
        if self.transport.is_closing():
            return
        if not self._body_since and self._header_bytes > HEADER_BYTES_MAX:
            self._close_with(b"431 Request Header Fields Too Large", b"The header is too large.")
        elif self._framing_bytes > HEADER_BYTES_MAX + 8 * self._body_bytes:
            self._close_with(b"431 Request Header Fields Too Large", b"The body's chunks and trailers are too large.")
        elif self._body_pieces > PIECES_MAX + self._body_bytes // PIECE_BYTES_MIN:
            self._close_with(b"400 Bad Request", b"The body comes in too many small pieces; send larger ones.")

    def on_message_begin(self) -> None:
        self._in_message = True
        if self._timer is None:
            self._arm(self.limits.header_s)
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._body_since:  # later ones are trailers
            super().on_header(name, value)
            if self.headers[-1][0] == b"transfer-encoding":
                self._check_coding(value)

    def _check_coding(self, value: bytes) -> None:
        """What an older server would not take for chunks, or a stricter one for a fault, ends the connection."""
        if value.strip().lower() != b"chunked" or self.parser.get_http_version() == "1.0":
            raise ValueError("this coding of a body is not taken here")

    def on_headers_complete(self) -> None:
        self._header_bytes = self._body_bytes = self._body_pieces = self._framing_bytes = 0
        self._body_since = self.loop.time()
        self._arm(self.limits.body_s)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._body_pieces += 1
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._disarm()
        self._in_message = False
        self._body_since = 0.0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._cut_off_after(self.limits.write_s)
        elif self._body_since and not self.pipeline:
            self._arm(self.limits.linger_s)  # answered before all of it came; what still comes is dropped

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._cut_off_after(self.limits.write_s)

    def send_400_response(self, msg: str) -> None:
        super().send_400_response(msg)
        self._disarm()
        self._cut_off_after(LINGER_S)

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
        answered = self.cycle is not None and self.cycle.response_complete
        if self.flow.read_paused and not answered:
            self._arm(self.limits.body_s)  # it is the application that is slow
            return
        if self._body_since and not answered:
            earned_s = self.limits.body_s + self._body_bytes / BODY_BYTES_PER_SECOND
            left_s = self._body_since + earned_s - self.loop.time()
            if left_s > 0:
                self._arm(left_s)
                return
        self._close_with(b"408 Request Timeout", b"The request took too long to arrive.")

    def _make_room(self) -> bool:
        """Close a connection of the address that holds most, if that is another's. False if none can be spared."""
        others = [each for each in self.connections if isinstance(each, _Connection)]
        held = Counter(each._origin for each in others)
        greediest, count = held.most_common(1)[0]
        if count <= held[self._origin]:
            return False
        for each in others:
            if each._origin == greediest and each.can_be_spared:
                each.transport.abort()
                self.connections.discard(each)
                return True
        return False

    @property
    def can_be_spared(self) -> bool:
        """Whether no whole request of it is being answered, nor an answer still on its way."""
        answered = self.cycle is None or self.cycle.response_complete
        return (answered or bool(self._body_since)) and not self.pipeline

    def _cut_off_after(self, seconds: float) -> None:
        """A transport that closes waits for its reader: not longer than this."""
        self.loop.call_later(seconds, self.transport.abort)

    def _close_with(self, status: bytes, said: bytes, header: bytes = b"") -> None:
        """Answer, if no answer has begun, and close; a client that does not take it is cut off."""
        self._disarm()
        answered_early = self.cycle is not None and self.cycle.response_complete and bool(self._body_since)
        if not answered_early and (
            self.cycle is None or self.cycle.response_complete or not self.cycle.response_started
        ):
            length = str(len(said)).encode()
            kind = b"content-type: text/plain; charset=utf-8\r\ncontent-length: " + length + b"\r\n"
            self.transport.write(b"HTTP/1.1 " + status + b"\r\n" + kind + header + b"connection: close\r\n\r\n" + said)
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()
        self._cut_off_after(LINGER_S)

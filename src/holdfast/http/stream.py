"""Server-sent events from rows. What was missed comes first, then what is new, then the end.

The rows are the truth and every process reads them, so that any process serves any stream. A commit wakes the listener;
polling is the net under it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
from fastapi import Request
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.errors import StoreError
from holdfast.http.buckets import Callers
from holdfast.kernel.kernel import Kernel
from holdfast.stores.seam import Tx

POLL_S = 1.0
HEARTBEAT_S = 15.0
SEND_TIMEOUT_S = 30.0
ID_LENGTH_MAX = 200


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream. After a `final` one the stream ends."""

    id: str
    name: str
    data: Any
    final: bool = False


Fetch = Callable[[Tx, str | None], Awaitable[Sequence[Event]]]
"""The events after an id, in order, oldest first; all of them for None. An empty answer means: nothing new yet."""


def stream(
    kernel: Kernel,
    request: Request,
    *,
    last_event_id: str | None,
    fetch: Fetch,
    heartbeat_s: float = HEARTBEAT_S,
    channel: str = "events",
) -> EventSourceResponse:
    """Send the events after `last_event_id`, and go on until a final one or until the client leaves.

    `channel` is what the writers of these events hint; a channel of its own per aggregate wakes fewer streams."""
    after = last_event_id if last_event_id and len(last_event_id) <= ID_LENGTH_MAX else None
    return _CountedStream(
        _events(kernel, after, fetch, channel, request.app.state.stopping),
        ping=heartbeat_s,
        ping_message_factory=_ping,
        send_timeout=SEND_TIMEOUT_S,
    )


class EventStream(Response):
    """For `response_class`: the document says that a route answers with server-sent events."""

    media_type = "text/event-stream"


class _CountedStream(EventSourceResponse):
    """Takes one of the caller's places while it runs."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        callers: Callers = scope["app"].state.callers
        with callers.streaming(scope):
            await super().__call__(scope, receive, send)


def last_event_id(request: Request) -> str | None:
    """Where a stream goes on: the browser's header, or `?lastEventId=` for a client that reopens it."""
    return request.headers.get("last-event-id") or request.query_params.get("lastEventId")


async def _events(
    kernel: Kernel, after: str | None, fetch: Fetch, channel: str, stopping: asyncio.Event
) -> AsyncIterator[ServerSentEvent]:
    listener = kernel.store.listen(channel)
    try:
        while not stopping.is_set():
            found = await _fetched(kernel, after, fetch)
            for event in found:
                yield ServerSentEvent(json.dumps(event.data), event=event.name, id=event.id)
                if event.final:
                    return
                after = event.id
            if not found:
                await listener.wait(POLL_S)
    finally:
        listener.close()


async def _fetched(kernel: Kernel, after: str | None, fetch: Fetch) -> Sequence[Event]:
    """Shielded: a client that leaves in the middle must not leave a transaction open. A store that is down for a
    while ends no stream."""
    found: Sequence[Event] = ()
    with anyio.CancelScope(shield=True):
        try:
            async with kernel.store.reading() as tx:
                found = await fetch(tx, after)
        except StoreError as error:
            kernel.watch.log("stream.store_failed", error=str(error))
    return found


def _ping() -> ServerSentEvent:
    return ServerSentEvent("{}", event="ping")

"""The in-process transport: publishing is a direct, durable hand-over.

`publish` returns only after the consumer's handler has returned, which is after its commit. So there is no queue in
memory that a crash could empty: until the hand-over succeeds the message stays in its outbox. A handler that fails is
`NotHandled`: this message comes again, the others go on. A queue with no consumer yet, or whose consumer has no store,
is down, not a black hole; a sink keeps its last messages for people to look at.

Why so: docs/decisions/0003-the-in-process-transport-hands-over.md
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence

from holdfast.errors import NotHandled, StoreError, TransportDown, Unroutable
from holdfast.transports.seam import Delivery, Handler, Message, Queue

log = logging.getLogger("holdfast.memory")

SINK_MAX = 1_000


class MemoryTransport:
    def __init__(self, hand_over_timeout_s: float = 30.0) -> None:
        self._queues: dict[str, Queue] = {}
        self._handlers: dict[str, tuple[Handler, asyncio.Semaphore]] = {}
        self._timeout_s = hand_over_timeout_s
        self._closed = False
        self.sinks: dict[str, deque[Message]] = {}

    async def declare(self, queues: Sequence[Queue]) -> None:
        for queue in queues:
            self._queues[queue.name] = queue
            if queue.sink:
                self.sinks.setdefault(queue.name, deque(maxlen=SINK_MAX))

    async def publish(self, message: Message) -> None:
        if self._closed:
            raise TransportDown("The transport is closed.")
        queue = self._route(message.destination)
        if queue.name in self._handlers:
            await self._hand_over(queue.name, message)
        elif queue.sink:
            self.sinks[queue.name].append(message)
        else:
            raise TransportDown(f"Nobody consumes the queue '{queue.name}' yet.")

    async def consume(self, queue: str, handler: Handler, *, prefetch: int = 20) -> None:
        self._handlers[queue] = (handler, asyncio.Semaphore(prefetch))
        try:
            await asyncio.Event().wait()
        finally:
            self._handlers.pop(queue, None)

    def place(self) -> str:
        return "in this process"

    async def reach(self) -> None:
        pass

    def trouble(self) -> str | None:
        return None

    def stalled(self) -> Mapping[str, str]:
        return {}

    async def close(self) -> None:
        self._closed = True
        self._handlers.clear()

    def _route(self, destination: str) -> Queue:
        exchange, _, key = destination.rpartition("/")
        for queue in self._queues.values():
            if (queue.exchange, queue.routing_key or queue.name) == (exchange, key):
                return queue
        if not exchange and destination in self._queues:
            return self._queues[destination]
        raise Unroutable(f"No queue is bound to '{destination}'.")

    async def _hand_over(self, name: str, message: Message) -> None:
        handler, room = self._handlers[name]
        delivery = Delivery(name, message.body, message.id, dict(message.headers))
        try:
            async with asyncio.timeout(self._timeout_s), room:
                await handler(delivery)
        except (TransportDown, StoreError) as error:  # it fails every message alike
            raise TransportDown(f"The consumer of '{name}' cannot work now ({type(error).__name__}).") from error
        except Exception as error:  # a handler may fail in any way; whichever it is, the message is offered again
            log.warning("A message of '%s' was not handled (%s).", name, type(error).__name__)
            raise NotHandled(f"The consumer of '{name}' failed ({type(error).__name__}).") from error

"""What the transport tests share: the contract's queues, a consumer that remembers, a publisher that insists."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from uuid import uuid4

from holdfast.errors import NotHandled, TransportDown
from holdfast.transports.seam import Delivery, Handler, Message, Queue, Transport

EXCHANGE = "vstep.exchange"
REQUESTS = Queue("grading.request", EXCHANGE, "grading.request")
DEAD = Queue("grading.dlq", EXCHANGE, "grading.dlq", sink=True)
PATIENCE_S = 60.0


def request(
    body: bytes = b"{}", *, message_id: str | None = None, to: str = "vstep.exchange/grading.request"
) -> Message:
    return Message(message_id or str(uuid4()), to, body, type="grading.request", headers={"traceId": "t-1"})


class Seen:
    """A handler that remembers what it was given, in order, and lets tests wait for it."""

    def __init__(self, then: Callable[[Delivery], Awaitable[None]] | None = None) -> None:
        self.deliveries: list[Delivery] = []
        self._then = then
        self._news = asyncio.Event()

    async def __call__(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)
        self._news.set()
        if self._then is not None:
            await self._then(delivery)

    @property
    def ids(self) -> list[str | None]:
        return [delivery.message_id for delivery in self.deliveries]

    def counts(self) -> Counter[str | None]:
        return Counter(self.ids)

    async def until(self, enough: Callable[[Seen], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not enough(self):
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def consuming(
    transport: Transport, handler: Handler, queue: str = "grading.request", prefetch: int = 20
) -> AsyncIterator[None]:
    task = asyncio.create_task(transport.consume(queue, handler, prefetch=prefetch))
    await asyncio.sleep(0)
    try:
        yield
        assert not task.done(), "a consumer never ends by itself"
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def insist(transport: Transport, message: Message) -> None:
    """Publish until confirmed, as the relay does."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await transport.publish(message)
            except (TransportDown, NotHandled):
                await asyncio.sleep(0.05)

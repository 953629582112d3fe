"""RabbitMQ (3.10 to 4.x), by aio-pika.

Publishing: confirms, `mandatory`, persistent, many in flight on one channel, a time limit on each. What the broker
acked is on its disk; what it returned is `Unroutable`; everything else is doubt, which is `TransportDown`, and after
doubt the connection is thrown away. A connection that the broker has blocked (a memory or disk alarm) is kept: another
one would be blocked as well, after taking more bytes that come out as duplicates when the alarm ends.

A message that the broker answers by closing the channel (too large, an exchange that is not there) takes down all that
is in flight with it, and nobody knows who it was. Each of those is published alone next time, on a channel of its own:
then the blame falls on the one, and the others go through.

After a nack the channel is replaced, behind what is in flight on it. A channel of RabbitMQ 3.10 that was opened between
the death of a quorum queue's leader and the election of the next one asks the dead node forever: it nacks all that is
published on it, while any other channel gets through.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress

from aio_pika.exceptions import AMQPChannelError, DeliveryError, PublishError

from holdfast.errors import TransportDown, TransportError, Unroutable
from holdfast.transports.rabbitmq.consumer import consume
from holdfast.transports.rabbitmq.fast_publisher import FastPublisher
from holdfast.transports.rabbitmq.link import LOSSES, REFUSALS, Link, in_words, is_blocked, is_cancelled, retrieve
from holdfast.transports.rabbitmq.look import look
from holdfast.transports.rabbitmq.publisher import Publisher
from holdfast.transports.seam import Handler, HeldMessage, Message, Queue

SUSPECTS_MAX = 10_000
PUBLISH_TIMEOUT_S = 10.0
REACH_S = 3.0


class RabbitTransport:
    """Nothing is connected until it is needed. Publishing and consuming have a connection each: an alarm that blocks
    the one must not keep the other from acking. `url` may name several brokers of a cluster: they are tried in turn."""

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = PUBLISH_TIMEOUT_S,
        queue_type: str = "classic",
        publisher: type[Publisher] = FastPublisher,
    ) -> None:
        self._timeout_s = timeout_s
        self._publisher_type = publisher
        self._queues: dict[str, Queue] = {}
        self._undeclared: dict[str, Queue] = {}
        self._stalled: dict[str, str] = {}
        self._outward = Link(url, "holdfast publisher", self._queues, timeout_s, queue_type)
        self._inward = Link(url, "holdfast consumer", self._queues, timeout_s, queue_type)
        self._shared: asyncio.Task[Publisher] | None = None
        self._suspects: OrderedDict[str, None] = OrderedDict()
        self._retired: set[asyncio.Task[None]] = set()

    async def declare(self, queues: Sequence[Queue]) -> None:
        wanted = {queue.name: queue for queue in queues}
        self._queues.update(wanted)
        self._undeclared.update(wanted)
        await self._outward.declare(queues)
        for name in wanted:
            self._undeclared.pop(name, None)

    async def publish(self, message: Message) -> None:
        """Return when the broker has confirmed the message."""
        publisher: Publisher | None = None
        try:
            async with asyncio.timeout(self._timeout_s):
                if self._undeclared:  # the broker was away: the message must not find its queue missing
                    await self.declare(list(self._undeclared.values()))
                if message.id in self._suspects:
                    await self._publish_alone(message)
                else:
                    publisher = await self._publisher()
                    await publisher.publish(message)
        except TransportError:
            raise
        except PublishError as error:
            raise Unroutable(f"No queue is bound to '{message.destination}'.") from error
        except DeliveryError as error:
            self._retire(publisher)
            raise TransportDown(f"RabbitMQ refused a message for '{message.destination}' (nack).") from error
        except AMQPChannelError as error:
            self._suspect(message.id)
            raise TransportDown(_why_closed(error)) from error
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            raise await self._doubt(error) from error  # the driver cancels what was in flight on a dead connection
        except Exception as error:  # whatever else the driver raises, nobody knows whether the broker has the message
            raise await self._doubt(error) from error

    async def consume(self, queue: str, handler: Handler, *, prefetch: int = 20) -> None:
        await consume(self._inward, queue, self._queues, handler, prefetch, self._stalled)

    def look(self, queue: str) -> AbstractAsyncContextManager[AsyncIterator[HeldMessage]]:
        return look(self._outward, queue, self._timeout_s)

    def place(self) -> str:
        return self._outward.place

    async def reach(self) -> None:
        """A connection that is there is no question; one that was lost or never made is tried, and one that failed a
        moment ago is not waited for."""
        with suppress(TransportDown, TimeoutError):
            async with asyncio.timeout(REACH_S if self._outward.trouble is None else 0):
                await self._outward.connection()

    def trouble(self) -> str | None:
        return self._outward.trouble or self._inward.trouble

    def stalled(self) -> Mapping[str, str]:
        return self._stalled

    async def close(self) -> None:
        await asyncio.gather(self._outward.close(), self._inward.close())

    async def _publisher(self) -> Publisher:
        """The channel that all publishes share; opened once for all who wait."""
        shared = self._shared
        if shared is None or (shared.done() and not _is_usable(shared)):
            shared = self._shared = asyncio.get_running_loop().create_task(self._open())
            shared.add_done_callback(retrieve)
        return await asyncio.shield(shared)

    async def _open(self) -> Publisher:
        async with asyncio.timeout(self._timeout_s):
            return await self._publisher_type.on(await self._outward.connection())

    async def _publish_alone(self, message: Message) -> None:
        """On a channel of its own: if the broker closes that, it is this message's doing."""
        publisher = await self._open()
        try:
            await publisher.publish(message)
        except AMQPChannelError as error:
            raise Unroutable(f"RabbitMQ does not take this message for '{message.destination}': {error}") from error
        else:
            del self._suspects[message.id]
        finally:
            await publisher.close()

    def _retire(self, publisher: Publisher | None) -> None:
        """Let the next publish open another channel, and close this one after the answers that it still owes."""
        shared = self._shared
        if publisher is None or shared is None or not shared.done() or not _is_usable(shared):
            return
        if shared.result() is publisher:
            self._shared = None
            closing = asyncio.get_running_loop().create_task(self._close_retired(publisher))
            self._retired.add(closing)
            closing.add_done_callback(self._retired.discard)

    async def _close_retired(self, publisher: Publisher) -> None:
        with suppress(*LOSSES):
            async with asyncio.timeout(self._timeout_s):
                await publisher.close_when_drained()

    def _suspect(self, message_id: str) -> None:
        self._suspects[message_id] = None
        if len(self._suspects) > SUSPECTS_MAX:
            self._suspects.popitem(last=False)

    async def _doubt(self, error: BaseException) -> TransportDown:
        shared = self._shared
        if shared is not None and shared.done() and _is_usable(shared) and await is_blocked(shared.result().connection):
            return TransportDown("RabbitMQ has blocked the connection: an alarm is on (memory or disk).")
        self._shared = None
        self._outward.discard()
        return TransportDown(f"RabbitMQ did not confirm ({type(error).__name__}); it may have the message.")


def _why_closed(error: AMQPChannelError) -> str:
    if isinstance(error, REFUSALS):
        return in_words("publish", error)
    return f"RabbitMQ closed the channel while publishing ({type(error).__name__})."


def _is_usable(shared: asyncio.Task[Publisher]) -> bool:
    return not shared.cancelled() and shared.exception() is None and not shared.result().channel.is_closed

"""Looks into a queue of RabbitMQ without consuming it: for people and their tools, never for a running duty.

Messages are fetched one by one and not acked, so that the broker hides them from others meanwhile and puts them back
where they lay when the channel closes, also when this process dies. What is taken is acked, and gone.

A quorum queue counts how often a message was handed out, and drops it at its delivery limit (20 by default since
RabbitMQ 4.0). A message that was looked at often is therefore laid at the end of the queue anew, confirmed before the
old copy is acked: a crash in between leaves two copies, never none.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aio_pika import DeliveryMode, Message
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import AMQPError

from holdfast.errors import TransportDown
from holdfast.transports.rabbitmq.link import Link, losses
from holdfast.transports.seam import Delivery, HeldMessage

COUNT_HEADER = "x-delivery-count"
SETTLE_S = 0.1
LOOKS_MAX = 10
"""Half of the broker's default limit: somebody else may look, too."""


@asynccontextmanager
async def look(link: Link, name: str, timeout_s: float) -> AsyncIterator[AsyncIterator[HeldMessage]]:
    """The messages that lie in the queue now, the oldest first, held while this is open."""
    worn: list[_Held] = []
    with losses("look into a queue"):
        async with asyncio.timeout(timeout_s):
            channel = await (await link.connection()).channel()
    try:
        yield _held(channel, name, timeout_s, worn)
        for held in worn:
            await held.lay_anew(channel, name, timeout_s)
    except AMQPError as error:
        raise TransportDown(f"RabbitMQ broke off a look into '{name}' ({type(error).__name__}).") from error
    finally:
        with losses("give messages back"):
            async with asyncio.timeout(timeout_s):
                await channel.close()  # an ack that was sent before is heeded, all else goes back


class _Held:
    """One message that the broker has handed out to us."""

    def __init__(self, message: AbstractIncomingMessage) -> None:
        self.message = message
        self._is_taken = False

    async def take(self) -> None:
        self._is_taken = True
        await self.message.ack()

    async def lay_anew(self, channel: AbstractChannel, name: str, timeout_s: float) -> None:
        if self._is_taken:
            return
        message = self.message
        headers = {key: value for key, value in message.headers.items() if key != COUNT_HEADER}
        copy = Message(
            message.body,
            headers=headers,
            content_type=message.content_type,
            delivery_mode=DeliveryMode.PERSISTENT,
            message_id=message.message_id,
            correlation_id=message.correlation_id,
            type=message.type,
        )
        await channel.default_exchange.publish(copy, name, mandatory=True, timeout=timeout_s)
        await message.ack()


async def _held(channel: AbstractChannel, name: str, timeout_s: float, worn: list[_Held]) -> AsyncIterator[HeldMessage]:
    with losses("look into a queue"):
        async with asyncio.timeout(timeout_s):
            queue = await channel.declare_queue(name, passive=True)
    while (message := await _next(queue, timeout_s)) is not None:
        held = _Held(message)
        if _looks(message) >= LOOKS_MAX:
            worn.append(held)
        yield HeldMessage(_delivery(name, message), held.take)


async def _next(queue: AbstractQueue, timeout_s: float) -> AbstractIncomingMessage | None:
    """The next message. What another look has just given back may take a moment to lie there again, so an empty answer
    is asked about once more."""
    with losses("look into a queue"):
        async with asyncio.timeout(timeout_s):
            message = await _ask(queue, timeout_s)
            if message is None:
                await asyncio.sleep(SETTLE_S)
                message = await _ask(queue, timeout_s)
    return message


async def _ask(queue: AbstractQueue, timeout_s: float) -> AbstractIncomingMessage | None:
    return await queue.get(no_ack=False, fail=False, timeout=timeout_s)


def _looks(message: AbstractIncomingMessage) -> int:
    count = message.headers.get(COUNT_HEADER, 0)
    return count if isinstance(count, int) else 0


def _delivery(name: str, message: AbstractIncomingMessage) -> Delivery:
    headers = {key: value for key, value in message.headers.items() if isinstance(value, str)}
    return Delivery(name, message.body, message.message_id, headers, bool(message.redelivered))

"""A channel in confirm mode. Here messages go out by the driver's own publish; `fast_publisher` has a quicker way that
knows more of the driver than its public names. Which of the two it is, RABBITMQ_PUBLISHER says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Self

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, DeliveryMode

from holdfast.errors import Unroutable
from holdfast.transports.seam import Message


class Publisher:
    """Publishes and waits for confirms. Nobody else may publish on its channel."""

    def __init__(self, connection: AbstractConnection, channel: AbstractChannel) -> None:
        self.connection = connection
        self.channel = channel
        self._unanswered = 0
        self._drained = asyncio.Event()

    @classmethod
    async def on(cls, connection: AbstractConnection) -> Self:
        return cls(connection, await connection.channel(on_return_raises=True))

    async def publish(self, message: Message) -> None:
        """Return when the broker has confirmed the message; raise what the driver says otherwise."""
        if self.connection.transport is not None:
            await self.connection.transport.ready()  # returns at once unless the broker has blocked us
        exchange, _, key = message.destination.rpartition("/")
        with self._counting():
            try:
                place = await self.channel.get_exchange(exchange, ensure=False)
                await place.publish(_driver_message(message), key, mandatory=True)
            except (TypeError, ValueError) as error:
                raise unencodable(message, error) from error

    @contextmanager
    def _counting(self) -> Iterator[None]:
        self._unanswered += 1
        try:
            yield
        finally:
            self._unanswered -= 1
            if not self._unanswered:
                self._drained.set()

    async def close(self) -> None:
        if not self.channel.is_closed:
            await self.channel.close()

    async def close_when_drained(self) -> None:
        """Close after the last answer to what was published; until then nothing new may be."""
        while self._unanswered:
            self._drained.clear()
            await self._drained.wait()
        await self.close()


def unencodable(message: Message, error: Exception) -> Unroutable:
    return Unroutable(f"The message for '{message.destination}' cannot be encoded: {error}")


def _driver_message(message: Message) -> aio_pika.Message:
    return aio_pika.Message(
        message.body,
        headers=dict(message.headers),
        content_type=message.content_type,
        delivery_mode=DeliveryMode.PERSISTENT if message.persistent else DeliveryMode.NOT_PERSISTENT,
        correlation_id=message.correlation_id,
        message_id=message.id,
        timestamp=datetime.now(UTC),
        type=message.type or None,
    )

"""Signs what is published and checks what arrives or is looked at, where a key is set: the right to write to a queue
proves nothing.

The header `holdfast-signature` holds `sha256=` and the HMAC-SHA256 of the body under the key, in hex. The first key
signs and every key is accepted, so that a key is changed by putting the new one in front, and taking the old one away
later.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from holdfast.transports.seam import Delivery, Handler, HeldMessage, Lookable, Message, Queue, Transport

SIGNATURE_HEADER = "holdfast-signature"


def sign(key: str, body: bytes) -> str:
    """The value of the header for this body."""
    return "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()


def is_signed(keys: Sequence[str], delivery: Delivery) -> bool:
    """Whether the delivery's signature is right under one of the keys."""
    given = delivery.headers.get(SIGNATURE_HEADER, "").encode()
    return any(hmac.compare_digest(given, sign(key, delivery.body).encode()) for key in keys)


class SignedTransport:
    """A transport whose messages are signed. A handler learns of a wrong or missing one by `Delivery.genuine`."""

    def __init__(self, inner: Transport, keys: Sequence[str]) -> None:
        self._inner = inner
        self._keys = tuple(keys)

    async def declare(self, queues: Sequence[Queue]) -> None:
        await self._inner.declare(queues)

    async def publish(self, message: Message) -> None:
        signature = {SIGNATURE_HEADER: sign(self._keys[0], message.body)}
        await self._inner.publish(replace(message, headers={**message.headers, **signature}))

    async def consume(self, queue: str, handler: Handler, *, prefetch: int = 20) -> None:
        async def checked(delivery: Delivery) -> None:
            await handler(self._checked(delivery))

        await self._inner.consume(queue, checked, prefetch=prefetch)

    @asynccontextmanager
    async def look(self, queue: str) -> AsyncIterator[AsyncIterator[HeldMessage]]:
        assert isinstance(self._inner, Lookable), "only a broker's transport is signed"
        async with self._inner.look(queue) as held:
            yield self._each_checked(held)

    async def _each_checked(self, held: AsyncIterator[HeldMessage]) -> AsyncIterator[HeldMessage]:
        async for message in held:
            yield replace(message, delivery=self._checked(message.delivery))

    def _checked(self, delivery: Delivery) -> Delivery:
        return replace(delivery, genuine=is_signed(self._keys, delivery))

    def place(self) -> str:
        return self._inner.place()

    async def reach(self) -> None:
        await self._inner.reach()

    def trouble(self) -> str | None:
        return self._inner.trouble()

    def stalled(self) -> Mapping[str, str]:
        return self._inner.stalled()

    async def close(self) -> None:
        await self._inner.close()

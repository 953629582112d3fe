"""In-process wake-ups, shared by both stores. A bell remembers one ring, so that none is lost between waits.

A ring may carry a ticket: whoever listens in any process sees the same one, and a listener's `heed` says whether the
ring is its own. A ring without a ticket is everybody's.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable

Heed = Callable[[str], bool]
ADDRESSED = "queue:"
"""Rings on such channels are for as many as there is work: each carries a ticket, unless it says that it is for all."""
TICKET = " #"
"""Between the channel and the ticket, in the text of a notification."""


class Bells:
    """Every listener of one store, by channel."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[_Bell]] = defaultdict(list)

    def ring(self, channel: str, ticket: str = "") -> None:
        for bell in list(self._listeners.get(channel, ())):
            bell.ring(ticket)

    def ring_all(self) -> None:
        """After a reconnection: anything may have been missed."""
        for channel in list(self._listeners):
            self.ring(channel)

    def bell(self, channel: str, heed: Heed | None = None) -> _Bell:
        bell = _Bell(self, channel, heed)
        self._listeners[channel].append(bell)
        return bell

    def channels(self) -> list[str]:
        return list(self._listeners)

    def drop(self, bell: _Bell) -> None:
        listeners = self._listeners[bell.channel]
        listeners.remove(bell)
        if not listeners:
            del self._listeners[bell.channel]


class _Bell:
    def __init__(self, bells: Bells, channel: str, heed: Heed | None) -> None:
        self.bells = bells
        self.channel = channel
        self.heed = heed
        self.rung = asyncio.Event()

    def ring(self, ticket: str) -> None:
        if not ticket or self.heed is None or self.heed(ticket):
            self.rung.set()

    async def wait(self, timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                await self.rung.wait()
        except TimeoutError:
            return False
        self.rung.clear()
        return True

    def close(self) -> None:
        self.bells.drop(self)

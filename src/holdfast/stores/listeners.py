"""In-process wake-ups, shared by both stores. A listener remembers one wake-up, so that none is lost between waits.

A ring may carry a ticket: whoever listens in any process sees the same one, and a listener's `heed` says whether, and
how soon, the ring is its own. A ring without a ticket is everybody's.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable

Heed = Callable[[str], float | None]
"""In how many seconds the ring with this ticket is to be answered; None: others answer it."""
ADDRESSED = ("queue:", "outbox")
"""Rings on such channels are for as many as there is work: each carries a ticket, unless it says that it is for all."""
TICKET = " #"
"""Between the channel and the ticket, in the text of a notification."""


class Listeners:
    """Every listener of one store, by channel."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[_Listener]] = defaultdict(list)

    def wake(self, channel: str, ticket: str = "") -> None:
        for listener in list(self._listeners.get(channel, ())):
            listener.wake(ticket)

    def wake_all(self) -> None:
        """After a reconnection: anything may have been missed."""
        for channel in list(self._listeners):
            self.wake(channel)

    def listen(self, channel: str, heed: Heed | None = None) -> _Listener:
        listener = _Listener(self, channel, heed)
        self._listeners[channel].append(listener)
        return listener

    def drop(self, listener: _Listener) -> None:
        listeners = self._listeners[listener.channel]
        listeners.remove(listener)
        if not listeners:
            del self._listeners[listener.channel]


class _Listener:
    def __init__(self, listeners: Listeners, channel: str, heed: Heed | None) -> None:
        self.listeners = listeners
        self.channel = channel
        self.heed = heed
        self.rung = asyncio.Event()

    def wake(self, ticket: str) -> None:
        after_s = self.heed(ticket) if ticket and self.heed is not None else 0.0
        if after_s == 0.0:
            self.rung.set()
        elif after_s is not None:
            asyncio.get_running_loop().call_later(after_s, self.rung.set)

    async def wait(self, timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                await self.rung.wait()
        except TimeoutError:
            return False
        self.rung.clear()
        return True

    def close(self) -> None:
        self.listeners.drop(self)

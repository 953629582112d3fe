"""In-process wake-ups, shared by both stores. A bell remembers one ring, so that none is lost between waits."""

from __future__ import annotations

import asyncio
from collections import defaultdict


class Bells:
    """Every listener of one store, by channel."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[_Bell]] = defaultdict(list)

    def ring(self, channel: str) -> None:
        for bell in self._listeners.get(channel, ()):
            bell.rung.set()

    def ring_all(self) -> None:
        """After a reconnection: anything may have been missed."""
        for bells in self._listeners.values():
            for bell in bells:
                bell.rung.set()

    def bell(self, channel: str) -> _Bell:
        bell = _Bell(self, channel)
        self._listeners[channel].append(bell)
        return bell

    def channels(self) -> list[str]:
        return list(self._listeners)

    def drop(self, bell: _Bell) -> None:
        self._listeners[bell.channel].remove(bell)


class _Bell:
    def __init__(self, bells: Bells, channel: str) -> None:
        self.bells = bells
        self.channel = channel
        self.rung = asyncio.Event()

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

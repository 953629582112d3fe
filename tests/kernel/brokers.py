"""A broker that a test commands, and a watch that remembers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from holdfast.errors import TransportDown, TransportError
from holdfast.kernel.observe.watch import LogWatch
from holdfast.transports.seam import Handler, Message, Queue


class Broker:
    """A transport that the test commands: down, or refusing some messages."""

    def __init__(self) -> None:
        self.taken: list[Message] = []
        self.down = False
        self.refuses: dict[str, TransportError] = {}
        self.tried: list[str] = []
        self.arrived: asyncio.Queue[str] = asyncio.Queue()
        self.asked = asyncio.Event()
        self._answers = asyncio.Event()
        self._answers.set()

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Whoever publishes inside gets its answer only at the end."""
        self._answers.clear()
        yield
        self._answers.set()

    async def declare(self, queues: Sequence[Queue]) -> None: ...
    async def close(self) -> None: ...
    async def consume(self, queue: str, handler: Handler, *, prefetch: int = 20) -> None: ...

    async def publish(self, message: Message) -> None:
        name = json.loads(message.body)["n"]
        self.tried.append(name)
        self.asked.set()
        await asyncio.sleep(0)
        await self._answers.wait()
        if self.down:
            raise TransportDown("no broker at amqp://guest:s3cretpassw0rd@broker/")
        if name in self.refuses:
            raise self.refuses[name]
        self.taken.append(message)
        self.arrived.put_nowait(name)

    @property
    def names(self) -> list[str]:
        return [json.loads(message.body)["n"] for message in self.taken]


class Heard(LogWatch):
    """Remembers what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, float] = {}
        self.lines: list[str] = []

    def log(self, event: str, **fields: Any) -> None:
        self.lines.append(event)

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + amount

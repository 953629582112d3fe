"""How queues are declared: plainly, as a foreign service would declare them, unless a type is asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.transports.rabbitmq.link import Link
from holdfast.transports.seam import Queue


class Known(Link):
    """A link whose driver writes down what it is asked to declare."""

    def __init__(self, queue_type: str) -> None:
        super().__init__("amqp://nobody.test", "test", {}, 5, queue_type)
        self.declared: list[tuple[str, bool, dict[str, str]]] = []

    async def connection(self) -> Any:
        return SimpleNamespace(channel=self._channel)

    @asynccontextmanager
    async def _channel(self) -> AsyncIterator[Any]:
        yield SimpleNamespace(declare_queue=self._note)

    async def _note(self, name: str, *, durable: bool, arguments: dict[str, str]) -> None:
        self.declared.append((name, durable, arguments))


@pytest.mark.spec("K10")
@pytest.mark.parametrize(("queue_type", "arguments"), [("classic", {}), ("quorum", {"x-queue-type": "quorum"})])
async def test_only_a_type_that_is_not_the_plain_one_is_named(queue_type: str, arguments: dict[str, str]) -> None:
    link = Known(queue_type)
    await link.declare([Queue("people")])
    assert link.declared == [("people", True, arguments)]

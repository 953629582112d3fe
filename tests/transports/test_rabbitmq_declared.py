"""How queues are declared: plainly, as a foreign service would declare them, unless a type is asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.transports.rabbitmq.examine import examine
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


@pytest.mark.slow
async def test_a_look_tells_what_is_declared_and_declares_nothing(rabbitmq_url: str) -> None:
    queues = [Queue("away"), Queue("people"), Queue("birds")]
    place, found, ok = await examine(rabbitmq_url, queues, "classic")
    assert (place, ok) == (rabbitmq_url.replace("holdfast:holdfast@", ""), True)
    assert found.startswith("RabbitMQ ") and "3 of 3 queues are not declared yet" in found
    link = Link(rabbitmq_url, "test", {}, 5, "classic")
    await link.declare(queues[1:])
    await link.close()
    assert "1 of 3 queues are not declared yet" in (await examine(rabbitmq_url, queues, "classic"))[1]
    _, found, ok = await examine(rabbitmq_url, queues, "quorum")
    assert not ok and "'people' is classic, 'birds' is classic, but RABBITMQ_QUEUE_TYPE is quorum" in found
    assert "1 of 3" in found, "it is not there because somebody looked"


async def test_a_broker_that_is_away_is_told() -> None:
    place, found, ok = await examine("amqp://ann:secret@127.0.0.1:1/shop", [], "classic")
    assert not ok and found.startswith("cannot be reached (") and "secret" not in place + found

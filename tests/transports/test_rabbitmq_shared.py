"""Attempts to connect are shared: who gives one up, because its own time is over, ends nobody else's work."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from holdfast.errors import TransportDown
from holdfast.transports.rabbitmq import consumer
from holdfast.transports.rabbitmq.link import losses
from holdfast.transports.rabbitmq.transport import RabbitTransport
from holdfast.transports.seam import Delivery, Message, Queue
from tests.services.proxy import Proxy, behind

QUEUES = [Queue("first"), Queue("second")]
PATIENCE_S = 30.0


@pytest.fixture
def hole(rabbitmq_url: str) -> Iterator[Proxy]:
    """The way to the broker, which takes connections and answers nothing until it is opened."""
    port = urlsplit(rabbitmq_url).port
    assert port is not None
    proxy = Proxy(port)
    proxy.open()
    proxy.swallow()
    yield proxy
    proxy.close()


@pytest.mark.slow
@pytest.mark.spec("K28")
async def test_whose_attempt_was_given_up_by_another_is_told_so(hole: Proxy, rabbitmq_url: str) -> None:
    transport = RabbitTransport(behind(hole, rabbitmq_url), timeout_s=0.4)
    publishing = asyncio.create_task(transport.publish(Message(id="m", destination="first", body=b"{}", type="x")))
    await asyncio.wait([publishing], timeout=0.2)
    declaring = asyncio.create_task(transport.declare(QUEUES))  # by then the attempt is under way, and half used up
    await asyncio.wait([publishing, declaring], timeout=PATIENCE_S)
    assert isinstance(publishing.exception(), TransportDown)
    assert not declaring.cancelled(), "the duty that declares ends without a word"
    assert isinstance(declaring.exception(), TransportDown)
    await transport.close()


@pytest.mark.slow
@pytest.mark.spec("K28", "K11")
async def test_a_consumer_outlives_an_attempt_that_another_gave_up(
    hole: Proxy, rabbitmq_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "SETUP_S", 0.4)
    transport = RabbitTransport(behind(hole, rabbitmq_url))
    came: asyncio.Queue[str] = asyncio.Queue()

    async def take(delivery: Delivery) -> None:
        await came.put(delivery.queue)

    first = asyncio.create_task(transport.consume("first", take))
    await asyncio.wait([first], timeout=0.2)
    second = asyncio.create_task(transport.consume("second", take))
    await asyncio.wait([second], timeout=0.4)
    assert not second.done(), "nobody consumes its queue any more"
    hole.open()
    monkeypatch.setattr(consumer, "SETUP_S", 10.0)
    async with asyncio.timeout(PATIENCE_S):
        await declared(transport)
        for queue in QUEUES:
            await transport.publish(Message(id=queue.name, destination=queue.name, body=b"{}", type="x"))
        assert {await came.get(), await came.get()} == {"first", "second"}
    for task in (first, second):
        task.cancel()
    await asyncio.wait([first, second])
    assert first.cancelled() and second.cancelled(), "one that is asked for is heeded"
    await transport.close()


async def declared(transport: RabbitTransport) -> None:
    while True:
        try:
            return await transport.declare(QUEUES)
        except TransportDown:
            continue


@pytest.mark.spec("K28")
async def test_a_cancellation_that_nobody_asked_for_is_a_loss() -> None:
    with pytest.raises(TransportDown, match="cannot connect"), losses("connect"):
        raise asyncio.CancelledError


@pytest.mark.spec("K17", "K28")
async def test_a_broker_that_nobody_has_needed_is_known_to_be_away_by_who_asks() -> None:
    transport = RabbitTransport("amqp://guest:guest@127.0.0.1:1/")
    assert transport.trouble() is None, "nobody has tried"
    await transport.reach()
    assert str(transport.trouble()).startswith("RabbitMQ is away: cannot connect")
    await transport.reach()  # it is tried again and not waited for
    await transport.close()

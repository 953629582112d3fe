"""Stopping leaves nothing behind, at whichever moment of a start it comes."""

from __future__ import annotations

import asyncio
import random

import pytest
from aio_pika.abc import AbstractConnection

from holdfast.errors import TransportDown
from holdfast.transports.rabbitmq.consumer import consume
from holdfast.transports.rabbitmq.link import Link
from holdfast.transports.rabbitmq.transport import RabbitTransport
from tests.transports.parts import DEAD, PATIENCE_S, REQUESTS, Seen


def alone() -> bool:
    return asyncio.all_tasks() == {asyncio.current_task()}


class Unheeding(Link):
    """A link whose driver answers a cancellation with an error of its own, as the real one does now and then."""

    async def connection(self) -> AbstractConnection:
        try:
            return await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            raise TransportDown("The connection was closed.") from None


@pytest.mark.spec("G3", "K16")
async def test_a_consumer_ends_though_the_driver_made_an_error_of_its_cancellation() -> None:
    link = Unheeding("amqp://nobody.test", "test", {}, timeout_s=PATIENCE_S)
    consumer = asyncio.create_task(consume(link, "grading.request", {}, Seen(), prefetch=1, stalled={}))
    await asyncio.sleep(0)
    consumer.cancel()
    done, _ = await asyncio.wait([consumer], timeout=5)
    assert done and consumer.cancelled()


@pytest.mark.slow
@pytest.mark.spec("G3", "K16")
async def test_a_consumer_stopped_at_any_moment_of_its_start_ends_and_leaves_nothing(rabbitmq_url: str) -> None:
    """The driver may answer a cancellation with an error of its own or with a result, as if nothing had been. About
    one moment in fifteen is such a one."""
    luck = random.Random(5)
    for number in range(200):
        transport = RabbitTransport(rabbitmq_url, timeout_s=PATIENCE_S)
        await transport.declare([REQUESTS, DEAD])
        consumer = asyncio.create_task(transport.consume("grading.request", Seen()))
        for _ in range(luck.randrange(120)):
            await asyncio.sleep(0 if luck.random() < 0.9 else 0.0005)
        consumer.cancel()
        done, _ = await asyncio.wait([consumer], timeout=PATIENCE_S)
        assert done, f"number {number} never ended"
        await transport.close()
        assert alone(), f"number {number} left {asyncio.all_tasks()}"

"""Stopping leaves nothing behind: not at any moment of a start, and not on a broker that says nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from yarl import URL

from holdfast.transports import rabbitmq_link
from holdfast.transports.rabbitmq import RabbitTransport
from tests.transports.parts import DEAD, PATIENCE_S, REQUESTS, Seen, request

pytestmark = pytest.mark.slow


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if reached():
                return
            await asyncio.sleep(0)


def alone() -> bool:
    return asyncio.all_tasks() == {asyncio.current_task()}


def running(part: str) -> bool:
    return any(part in repr(task.get_coro()) for task in asyncio.all_tasks())


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


@asynccontextmanager
async def wire_to(url: str) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """A way to the broker that carries nothing any more while the event is unset."""
    open_ = asyncio.Event()
    open_.set()
    there = URL(url)
    ends: list[asyncio.StreamWriter] = []

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(65_536):
                await open_.wait()
                writer.write(piece)

    async def joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(there.host, there.port)
        ends.extend((writer, far_writer))
        await asyncio.gather(carry(reader, far_writer), carry(far_reader, writer))

    server = await asyncio.start_server(joined, "127.0.0.1", 0)
    try:
        yield str(there.with_port(server.sockets[0].getsockname()[1])), open_
    finally:
        open_.set()
        server.close()
        for end in ends:
            end.close()


@pytest.mark.spec("G3", "K16")
async def test_closing_on_a_broker_that_says_nothing_hangs_up(
    rabbitmq_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rabbitmq_link, "CLOSE_S", 0.2)
    async with wire_to(rabbitmq_url) as (url, open_):
        transport = RabbitTransport(url, timeout_s=PATIENCE_S)
        await transport.declare([REQUESTS, DEAD])
        await transport.publish(request(to="vstep.exchange/grading.dlq"))
        open_.clear()
        await transport.close()
        await until(lambda: not any(map(running, ("__reader", "__writer", "__heartbeat"))))
    await until(alone)

"""What only a real broker can do to us: die, hang up, refuse, fill up, and carry what strangers put on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractConnection

from holdfast.errors import TransportDown, Unroutable
from holdfast.transports.rabbitmq.fast_publisher import FastPublisher
from holdfast.transports.rabbitmq.transport import RabbitTransport
from tests.services.rabbitmq import RabbitMQServer
from tests.transports.parts import DEAD, PATIENCE_S, REQUESTS, Seen, consuming, insist, request

pytestmark = pytest.mark.slow


@pytest.fixture
async def transport(rabbitmq_url: str) -> AsyncIterator[RabbitTransport]:
    transport = RabbitTransport(rabbitmq_url, timeout_s=5)
    await transport.declare([REQUESTS, DEAD])
    yield transport
    await transport.close()


@asynccontextmanager
async def stranger(url: str) -> AsyncIterator[AbstractChannel]:
    """A foreign client of the same broker."""
    async with await aio_pika.connect(url) as connection, connection.channel() as channel:
        yield channel


async def until_down(transport: RabbitTransport) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await transport.publish(request(to="vstep.exchange/grading.dlq"))
            except TransportDown:
                return


@pytest.mark.spec("G3", "K10", "G17")
async def test_a_broker_killed_while_publishing_and_consuming_loses_nothing_confirmed(
    rabbitmq_server: RabbitMQServer, rabbitmq_url: str, transport: RabbitTransport
) -> None:
    receiver = RabbitTransport(rabbitmq_url, timeout_s=5)
    seen = Seen()
    messages = [request() for _ in range(600)]
    room = asyncio.Semaphore(50)

    async def publish(number: int) -> None:
        async with room:
            await insist(transport, messages[number])

    async with consuming(receiver, seen):
        publishing = [asyncio.create_task(publish(number)) for number in range(600)]
        await seen.until(lambda s: len(s.ids) > 100)
        rabbitmq_server.halt(kill=True)
        await until_down(transport)
        rabbitmq_server.resume()
        await asyncio.gather(*publishing)
        await seen.until(lambda s: len(set(s.ids)) >= 600)
    assert set(seen.ids) == {message.id for message in messages}
    await receiver.close()


@pytest.mark.spec("G3")
async def test_a_broker_that_is_away_fails_fifty_publishes_at_once_not_one_after_the_other(
    rabbitmq_server: RabbitMQServer, transport: RabbitTransport
) -> None:
    rabbitmq_server.halt()
    try:
        started = asyncio.get_running_loop().time()
        answers = await asyncio.gather(*[transport.publish(request()) for _ in range(50)], return_exceptions=True)
        took_s = asyncio.get_running_loop().time() - started
    finally:
        rabbitmq_server.resume()
    assert {type(answer) for answer in answers} == {TransportDown}
    assert took_s < 6
    await insist(transport, request())


@pytest.mark.spec("K10", "K11")
async def test_connections_closed_by_the_broker_are_opened_again(
    rabbitmq_server: RabbitMQServer, transport: RabbitTransport
) -> None:
    seen = Seen()
    async with consuming(transport, seen):
        await insist(transport, request())
        await seen.until(lambda s: len(s.ids) == 1)
        for _ in range(3):
            rabbitmq_server._ask('rabbit_networking:close_all_connections("closed by a test")')
            message = request()
            await insist(transport, message)
            await seen.until(lambda s, wanted=message.id: wanted in s.ids)  # type: ignore[misc]


@pytest.mark.spec("K10")
async def test_a_blocked_connection_times_out_and_goes_on_when_the_alarm_is_over(
    rabbitmq_server: RabbitMQServer, rabbitmq_url: str
) -> None:
    transport = RabbitTransport(rabbitmq_url, timeout_s=1)
    await transport.declare([REQUESTS])
    seen = Seen()
    async with consuming(transport, seen):
        await transport.publish(request())
        rabbitmq_server._ask("rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []})")
        try:
            with pytest.raises(TransportDown):
                await transport.publish(request())
            with pytest.raises(TransportDown, match="alarm"):
                await transport.publish(request())
        finally:
            rabbitmq_server._ask("rabbit_alarm:clear_alarm({resource_limit, memory, node()})")
        message = request()
        await insist(transport, message)
        await seen.until(lambda s: message.id in s.ids)
    assert len(seen.ids) <= 4, "what was not written while blocked does not come out as duplicates"
    await transport.close()


@pytest.mark.spec("K10")
async def test_a_full_queue_refuses_and_takes_again_when_there_is_room(
    rabbitmq_server: RabbitMQServer, rabbitmq_url: str
) -> None:
    opened = 0

    class Counted(FastPublisher):
        @classmethod
        async def on(cls, connection: AbstractConnection) -> Self:
            nonlocal opened
            opened += 1
            return await super().on(connection)

    transport = RabbitTransport(rabbitmq_url, timeout_s=5, publisher=Counted)
    await transport.declare([REQUESTS, DEAD])
    vhost = rabbitmq_url.rpartition("/")[2]
    limit = '[{<<"max-length">>, 1}, {<<"overflow">>, <<"reject-publish">>}]'
    rabbitmq_server._ask(
        f'rabbit_policy:set(<<"{vhost}">>, <<"full">>, <<"^grading.request$">>, {limit}, 0, <<"queues">>, <<"tests">>)'
    )
    refused = 0
    async with asyncio.timeout(PATIENCE_S):
        while refused < 40:
            sent = await asyncio.gather(*(transport.publish(request()) for _ in range(10)), return_exceptions=True)
            assert {type(answer) for answer in sent} <= {TransportDown, type(None)}
            assert all("nack" in str(answer) for answer in sent if answer)
            refused += sum(answer is not None for answer in sent)
    channels = rabbitmq_server._ask("length(rabbit_channel:list())")
    assert opened > 3, "each refusal replaces the channel"
    assert int("".join(filter(str.isdigit, channels))) <= 3, "and the old ones are closed"
    message = request()
    seen = Seen()
    async with consuming(transport, seen):
        await insist(transport, message)
        await seen.until(lambda s: message.id in s.ids)
    await transport.close()


@pytest.mark.spec("K10")
async def test_a_queue_whose_declaration_did_not_come_to_its_end_is_declared_by_the_next_publish(
    rabbitmq_url: str,
) -> None:
    transport = RabbitTransport(rabbitmq_url, timeout_s=5)
    await transport.declare([REQUESTS])
    declaring = asyncio.create_task(transport.declare([DEAD]))
    await asyncio.sleep(0)
    declaring.cancel()
    await asyncio.wait([declaring])
    await transport.publish(request(to="vstep.exchange/grading.dlq"))
    await transport.close()


@pytest.mark.spec("K11")
async def test_a_queue_deleted_under_its_consumer_is_declared_again(
    rabbitmq_url: str, transport: RabbitTransport
) -> None:
    seen = Seen()
    message = request()
    async with consuming(transport, seen):
        await insist(transport, request())
        await seen.until(lambda s: len(s.ids) == 1)
        async with stranger(rabbitmq_url) as channel:
            await channel.queue_delete("grading.request")
        async with asyncio.timeout(PATIENCE_S):
            while message.id not in seen.ids:
                try:
                    await insist(transport, message)
                    await seen.until(lambda s: message.id in s.ids)
                except Unroutable:
                    await asyncio.sleep(0.05)


@pytest.mark.spec("K11")
async def test_a_queue_that_nobody_declared_is_consumed_once_it_is_there(
    rabbitmq_url: str, transport: RabbitTransport
) -> None:
    seen = Seen()
    async with consuming(transport, seen, "theirs"), stranger(rabbitmq_url) as channel:
        await channel.declare_queue("theirs", durable=True)
        await channel.default_exchange.publish(aio_pika.Message(b"hello"), "theirs")
        await seen.until(lambda s: len(s.ids) == 1)


@pytest.mark.spec("K10")
async def test_a_message_that_costs_the_channel_is_found_out_and_the_others_go_through(
    transport: RabbitTransport,
) -> None:
    good = [request() for _ in range(20)]
    bad = request(to="no.such.exchange/grading.request")
    seen = Seen()
    async with consuming(transport, seen):
        answers = await asyncio.gather(*[insist(transport, one) for one in [*good, bad]], return_exceptions=True)
        await seen.until(lambda s: len(set(s.ids)) == 20)
        assert [type(answer) for answer in answers if answer] == [Unroutable]
        with pytest.raises(Unroutable):
            await transport.publish(bad)
        await transport.publish(request())


@pytest.mark.spec("K10")
async def test_a_message_that_cannot_be_encoded_is_the_only_one_blamed(transport: RabbitTransport) -> None:
    answers = await asyncio.gather(
        transport.publish(request(to="vstep.exchange/" + "x" * 300)),
        transport.publish(request(message_id="i" * 300)),
        transport.publish(request()),
        return_exceptions=True,
    )
    assert [type(answer) for answer in answers] == [Unroutable, Unroutable, type(None)]


@pytest.mark.spec("K10")
async def test_one_message_that_always_fails_does_not_stop_the_others(transport: RabbitTransport) -> None:
    async def refuse_one(delivery: object) -> None:
        if getattr(delivery, "message_id", None) == bad.id:
            raise RuntimeError("never")

    bad = request()
    seen = Seen(refuse_one)
    async with consuming(transport, seen, prefetch=2):
        await insist(transport, bad)
        good = [request() for _ in range(200)]
        await asyncio.gather(*[insist(transport, one) for one in good])
        await seen.until(lambda s: len(set(s.ids)) == 201)
        assert seen.counts()[bad.id] < 10, "a failing message must not spin"


async def test_large_and_empty_bodies_arrive_whole(transport: RabbitTransport) -> None:
    seen = Seen()
    bodies = [b"", b"x" * 131_064, b"y" * 5_000_000]
    async with consuming(transport, seen):
        for body in bodies:
            await insist(transport, request(body))
        await seen.until(lambda s: len(s.ids) == 3)
    assert [delivery.body for delivery in seen.deliveries] == bodies

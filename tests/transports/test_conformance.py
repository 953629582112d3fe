"""One suite for every transport: what the kernel relies on, whichever broker is behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from holdfast.errors import NotHandled, StoreUnavailable, TransportDown, Unroutable
from holdfast.transports.memory import MemoryTransport
from holdfast.transports.rabbitmq.fast_publisher import FastPublisher
from holdfast.transports.rabbitmq.publisher import Publisher
from holdfast.transports.rabbitmq.transport import RabbitTransport
from holdfast.transports.seam import Delivery, Transport
from tests.transports.parts import DEAD, PATIENCE_S, REQUESTS, Seen, consuming, insist, request


class Conformance:
    @pytest.mark.spec("K10")
    async def test_what_was_confirmed_is_handled(self, transport: Transport) -> None:
        seen = Seen()
        async with consuming(transport, seen):
            message = request(b'{"skill":"writing"}')
            await insist(transport, message)
            await seen.until(lambda s: message.id in s.ids)
        first = seen.deliveries[0]
        assert (first.body, first.headers, first.queue) == (message.body, {"traceId": "t-1"}, "grading.request")

    @pytest.mark.spec("K10")
    async def test_a_message_for_no_queue_is_unroutable(self, transport: Transport) -> None:
        with pytest.raises(Unroutable):
            await transport.publish(request(to="vstep.exchange/nobody.listens"))

    @pytest.mark.spec("K10")
    async def test_a_message_that_is_unroutable_harms_no_other(self, transport: Transport) -> None:
        seen = Seen()
        async with consuming(transport, seen):
            good = [request() for _ in range(20)]
            bad = request(to="vstep.exchange/nobody.listens")
            answers = await asyncio.gather(
                *[insist(transport, one) for one in [*good[:10], bad, *good[10:]]], return_exceptions=True
            )
            await seen.until(lambda s: len(set(s.ids)) == 20)
        assert [type(answer) for answer in answers if answer is not None] == [Unroutable]

    @pytest.mark.spec("K11")
    async def test_a_message_whose_handler_raises_comes_again(self, transport: Transport) -> None:
        async def fail_twice(delivery: Delivery) -> None:
            if len(seen.deliveries) < 3:
                raise RuntimeError("not yet")

        seen = Seen(fail_twice)
        async with consuming(transport, seen):
            message = request()
            await insist(transport, message)
            await seen.until(lambda s: len(s.ids) == 3)
        assert seen.ids == [message.id] * 3

    @pytest.mark.spec("K10", "K11")
    async def test_a_handler_that_raises_is_neither_the_brokers_fault_nor_the_other_messages(
        self, transport: Transport
    ) -> None:
        async def refuse_one(delivery: Delivery) -> None:
            if delivery.message_id == bad.id:
                raise RuntimeError("never")

        bad, good = request(), [request() for _ in range(10)]
        seen = Seen(refuse_one)
        async with consuming(transport, seen):
            for message in (bad, *good):
                with suppress(NotHandled):  # a TransportDown would stop everybody's messages
                    await transport.publish(message)
            await seen.until(lambda s: set(s.ids) == {bad.id, *(one.id for one in good)})

    @pytest.mark.spec("K11")
    async def test_a_message_comes_again_after_the_store_was_down(self, transport: Transport) -> None:
        async def fail_twice(delivery: Delivery) -> None:
            if len(seen.deliveries) < 3:
                raise StoreUnavailable("away")

        seen = Seen(fail_twice)
        async with consuming(transport, seen):
            message = request()
            await insist(transport, message)
            await seen.until(lambda s: len(s.ids) == 3)
        assert seen.ids == [message.id] * 3

    @pytest.mark.spec("K11")
    async def test_a_message_published_twice_arrives_twice(self, transport: Transport) -> None:
        seen = Seen()
        async with consuming(transport, seen):
            message = request()
            await insist(transport, message)
            await insist(transport, message)
            await seen.until(lambda s: s.counts()[message.id] == 2)

    @pytest.mark.spec("G5")
    async def test_a_sink_takes_messages_that_nobody_consumes(self, transport: Transport) -> None:
        for number in range(3):
            await transport.publish(request(b"%d" % number, to="vstep.exchange/grading.dlq"))

    @pytest.mark.spec("K10")
    async def test_many_may_be_in_flight_at_once(self, transport: Transport) -> None:
        seen = Seen()
        async with consuming(transport, seen, prefetch=50):
            messages = [request() for _ in range(500)]
            await asyncio.gather(*[insist(transport, message) for message in messages])
            await seen.until(lambda s: len(set(s.ids)) == 500)
        assert set(seen.ids) == {message.id for message in messages}

    async def test_no_more_than_the_prefetch_are_handled_at_once(self, transport: Transport) -> None:
        inside, most = 0, 0

        async def count(delivery: Delivery) -> None:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

        seen = Seen(count)
        async with consuming(transport, seen, prefetch=3):
            await asyncio.gather(*[insist(transport, request()) for _ in range(60)])
            await seen.until(lambda s: len(s.ids) == 60)
        assert 1 <= most <= 3

    @pytest.mark.spec("K10")
    async def test_one_publisher_and_one_handler_keep_the_order(self, transport: Transport) -> None:
        seen = Seen()
        async with consuming(transport, seen, prefetch=1):
            messages = [request() for _ in range(100)]
            for message in messages:
                await insist(transport, message)
            await seen.until(lambda s: len(s.ids) == 100)
        assert seen.ids == [message.id for message in messages]

    @pytest.mark.spec("K16")
    async def test_a_handler_in_flight_when_consuming_stops_is_finished_or_comes_again(
        self, transport: Transport
    ) -> None:
        entered, handled = asyncio.Event(), asyncio.Event()

        async def slowly(delivery: Delivery) -> None:
            entered.set()
            await asyncio.sleep(0.05)
            handled.set()

        async with consuming(transport, slowly):
            publishing = asyncio.create_task(insist(transport, request()))
            await entered.wait()
        async with consuming(transport, slowly), asyncio.timeout(PATIENCE_S):
            await handled.wait()
            await publishing

    async def test_declaring_twice_is_harmless(self, transport: Transport) -> None:
        await transport.declare([REQUESTS, DEAD])
        await transport.declare([REQUESTS])

    async def test_after_close_nothing_is_published_and_no_task_is_left(self, transport: Transport) -> None:
        seen = Seen()
        async with consuming(transport, seen):
            await insist(transport, request())
        await transport.close()
        await transport.close()
        with pytest.raises(TransportDown):
            await transport.publish(request(to="vstep.exchange/grading.dlq"))
        assert asyncio.all_tasks() == {asyncio.current_task()}


class TestMemory(Conformance):
    @pytest.fixture
    async def transport(self) -> AsyncIterator[Transport]:
        transport = MemoryTransport()
        await transport.declare([REQUESTS, DEAD])
        yield transport
        await transport.close()


@pytest.mark.slow
@pytest.mark.parametrize("publisher", [FastPublisher, Publisher])
class TestRabbitMQ(Conformance):
    @pytest.fixture
    async def transport(self, rabbitmq_url: str, publisher: type[Publisher]) -> AsyncIterator[Transport]:
        transport = RabbitTransport(rabbitmq_url, publisher=publisher)
        await transport.declare([REQUESTS, DEAD])
        yield transport
        await transport.close()

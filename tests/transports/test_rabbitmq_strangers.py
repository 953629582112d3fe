"""Foreign services on the same broker: what they declare, and what they put into a message's properties."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Callable

import aio_pika
import pamqp.commands
import pamqp.frame
import pytest
from aio_pika.abc import AbstractChannel
from aiormq.abc import ChannelFrame
from aiormq.channel import Channel as Wire

from holdfast.transports.rabbitmq.transport import RabbitTransport
from tests.transports.parts import DEAD, EXCHANGE, REQUESTS, Seen, consuming, insist, request
from tests.transports.test_rabbitmq import stranger

pytestmark = pytest.mark.slow

HEADERS, MESSAGE_ID, TIMESTAMP = 1 << 13, 1 << 7, 1 << 6


@pytest.fixture
async def transport(rabbitmq_url: str) -> AsyncIterator[RabbitTransport]:
    transport = RabbitTransport(rabbitmq_url, timeout_s=5)
    yield transport
    await transport.close()


async def plainly(channel: AbstractChannel, **arguments: object) -> None:
    """What the contract tells a foreign service to declare."""
    exchange = await channel.declare_exchange(EXCHANGE, "direct", durable=True)
    queue = await channel.declare_queue("grading.request", durable=True, arguments=arguments or None)  # type: ignore[arg-type]
    await queue.bind(exchange, "grading.request")


@pytest.mark.spec("G3", "002.1")
@pytest.mark.parametrize("first", ["they", "we"])
async def test_the_same_declaration_by_a_foreign_service_does_not_clash(
    first: str, rabbitmq_url: str, transport: RabbitTransport
) -> None:
    async with stranger(rabbitmq_url) as channel:
        if first == "they":
            await plainly(channel)
            await transport.declare([REQUESTS, DEAD])
        else:
            await transport.declare([REQUESTS, DEAD])
            await plainly(channel)
        await transport.publish(request())


async def test_a_queue_that_exists_with_other_arguments_is_used_as_it_is(
    rabbitmq_url: str, transport: RabbitTransport
) -> None:
    seen = Seen()
    async with stranger(rabbitmq_url) as channel:
        await plainly(channel, **{"x-max-length": 1_000})
        await transport.declare([REQUESTS, DEAD])
        async with consuming(transport, seen):
            await insist(transport, request())
            await seen.until(lambda s: len(s.ids) == 1)


@pytest.mark.spec("G3", "002.2")
async def test_our_messages_carry_what_the_contract_says(rabbitmq_url: str, transport: RabbitTransport) -> None:
    await transport.declare([REQUESTS])
    message = request(b'{"requestId":"r"}')
    await transport.publish(message)
    async with stranger(rabbitmq_url) as channel:
        got = await (await channel.get_queue("grading.request")).get()
        assert got is not None
        assert (got.body, got.message_id, got.type, got.content_type, got.delivery_mode, got.headers) == (
            message.body,
            message.id,
            "grading.request",
            "application/json; charset=utf-8",
            aio_pika.DeliveryMode.PERSISTENT,
            {"traceId": "t-1"},
        )
        assert got.timestamp is not None
        await got.ack()


async def test_headers_of_any_type_arrive_as_text(rabbitmq_url: str, transport: RabbitTransport) -> None:
    await transport.declare([REQUESTS])
    headers = {
        "n": 7,
        "f": 0.5,
        "b": True,
        "raw": bytearray(b"\xff"),
        "list": [1, "a"],
        "table": {"x": {"y": 1}},
        "none": None,
    }
    seen = Seen()
    async with stranger(rabbitmq_url) as channel, consuming(transport, seen):
        exchange = await channel.get_exchange(EXCHANGE)
        await exchange.publish(aio_pika.Message(b"{}", headers=headers), "grading.request")  # type: ignore[arg-type]
        await seen.until(lambda s: len(s.ids) == 1)
    got = dict(seen.deliveries[0].headers)
    assert got == {
        "n": "7",
        "f": "0.5",
        "b": "true",
        "raw": "\ufffd",
        "list": '[1, "a"]',
        "table": '{"x": {"y": 1}}',
        "none": "",
    }


def short(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def table(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


def nested(depth: int) -> bytes:
    content = b""
    for _ in range(depth):
        content = short(b"a") + b"F" + table(content)
    return table(content)


HOSTILE = {
    "an_id_that_is_not_utf8": (MESSAGE_ID, short(b"\xff\xfe")),
    "a_timestamp_in_nanoseconds": (TIMESTAMP, struct.pack(">Q", 1_790_000_000_000_000_000)),
    "a_header_name_that_is_not_utf8": (HEADERS, table(short(b"\xff") + b"I" + b"\0\0\0\1")),
    "a_table_nested_too_deep": (HEADERS, nested(5_000)),
}


@pytest.mark.spec("G5")
@pytest.mark.parametrize("flags_and_values", HOSTILE.values(), ids=HOSTILE)
async def test_properties_that_cannot_be_decoded_jam_nothing(
    flags_and_values: tuple[int, bytes], rabbitmq_url: str, transport: RabbitTransport
) -> None:
    await transport.declare([REQUESTS])
    seen = Seen()
    async with consuming(transport, seen, prefetch=1):
        async with stranger(rabbitmq_url) as channel:
            await publish_raw(channel, b"hostile", *flags_and_values)
        await insist(transport, request(b"after"))
        await seen.until(lambda s: len(s.ids) == 2)
    assert [delivery.body for delivery in seen.deliveries] == [b"hostile", b"after"]


async def publish_raw(channel: AbstractChannel, body: bytes, flags: int, values: bytes) -> None:
    """Publish with properties that no client library would write."""
    wire = await channel.get_underlay_channel()
    assert isinstance(wire, Wire)
    publish = pamqp.commands.Basic.Publish(exchange=EXCHANGE, routing_key="grading.request")
    header = struct.pack(">HHQH", 60, 0, len(body), flags) + values
    frame: Callable[[int, bytes], bytes] = lambda kind, payload: (  # noqa: E731
        struct.pack(">BHI", kind, wire.number, len(payload)) + payload + b"\xce"
    )
    payload = pamqp.frame.marshal(publish, wire.number) + frame(2, header) + frame(3, body)
    await wire.write_queue.put(ChannelFrame(payload=payload, should_close=False, drain_future=None))
    await channel.get_queue("grading.request")  # a round trip: the broker has read the message

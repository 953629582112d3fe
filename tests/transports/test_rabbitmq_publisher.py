"""Messages as they go out: in frames that the protocol's own decoder reads, a turn's worth in one piece."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import pamqp.body
import pamqp.frame
import pytest
from aiormq.exceptions import ChannelInvalidStateError
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Unroutable
from holdfast.transports.rabbitmq.fast_publisher import TRIED, FastPublisher, encoded
from holdfast.transports.seam import Message

CHANNEL, BODY_MAX = 3, 1_000
words = st.text(st.characters(codec="utf-8"), max_size=30)
messages = st.builds(
    Message,
    id=words.filter(bool),
    destination=st.sampled_from(["vstep.exchange/grading.request", "grading.dlq", "/plain"]),
    body=st.binary(max_size=3_500),
    type=words,
    headers=st.dictionaries(words, words, max_size=4) | st.just({"n": 1, "s": "x"}),
    correlation_id=st.none() | words,
    persistent=st.booleans(),
)


@given(messages)
def test_what_is_sent_is_what_the_protocols_decoder_reads(message: Message) -> None:
    data, frames = encoded(message, CHANNEL, BODY_MAX), []
    while data:
        size, channel, frame = pamqp.frame.unmarshal(data)
        assert channel == CHANNEL
        frames.append(frame)
        data = data[size:]
    publish: Any = frames[0]
    assert f"{publish.exchange}/{publish.routing_key}".lstrip("/") == message.destination.lstrip("/")
    assert publish.mandatory and not publish.immediate
    header: Any = frames[1]
    said = header.properties
    assert (said.message_id, said.content_type, said.headers) == (message.id, message.content_type, message.headers)
    assert (said.correlation_id or None, said.message_type or "") == (message.correlation_id or None, message.type)
    assert said.delivery_mode == (2 if message.persistent else 1) and said.timestamp is not None
    pieces = [frame for frame in frames[2:] if isinstance(frame, pamqp.body.ContentBody)]
    assert header.body_size == len(message.body) and len(pieces) == len(frames) - 2
    assert b"".join(piece.value for piece in pieces) == message.body
    assert all(0 < len(piece.value) <= BODY_MAX for piece in pieces)


@pytest.mark.parametrize(
    "message",
    [
        Message("i" * 256, "a/b", b""),
        Message("i", "a/" + "k" * 256, b""),
        Message("i", "e" * 128 + "/k", b""),
        Message("i", "a/b", b"", type="\N{EURO SIGN}" * 86),
        Message("i", "a/b", b"", headers={"h" * 256: ""}),
        Message("i", "a/b", b"", correlation_id="\ud800"),
        Message("i", "a/b", b"", headers={"n": object()}),  # type: ignore[dict-item]
    ],
    ids=["id", "key", "exchange", "type", "header", "surrogate", "value"],
)
async def test_what_cannot_be_encoded_is_unroutable_and_uses_up_no_delivery_tag(message: Message) -> None:
    channel = Channel()
    with pytest.raises(Unroutable):
        await channel.publisher().publish(message)
    assert (channel.delivery_tag, len(channel.confirmations)) == (0, 0)


class Channel:
    """What a publisher touches of the driver's channel."""

    def __init__(self, queue_max: int = 10) -> None:
        self.number, self.max_content_size, self.delivery_tag = CHANNEL, BODY_MAX, 0
        self.confirmations: OrderedDict[int, asyncio.Future[None]] = OrderedDict()
        self.message_id_delivery_tag: dict[str, int] = {}
        self.write_queue: asyncio.Queue[Any] = asyncio.Queue(queue_max)
        self.closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_closed(self) -> bool:
        return self.closing.done()

    def publisher(self) -> FastPublisher:
        return FastPublisher(SimpleNamespace(transport=None), SimpleNamespace(), self)  # type: ignore[arg-type]

    async def begun(self, count: int) -> list[asyncio.Task[None]]:
        """That many messages on their way, none confirmed."""
        publisher = self.publisher()
        tasks = [asyncio.create_task(publisher.publish(Message(f"m{n}", "a/b", b"%d" % n))) for n in range(count)]
        await asyncio.sleep(0)
        assert len(self.confirmations) == count
        return tasks

    async def sent(self) -> list[bytes]:
        """The bodies in the next piece."""
        data, bodies = (await self.write_queue.get()).payload, []
        while data:
            size, _, frame = pamqp.frame.unmarshal(data)
            if isinstance(frame, pamqp.body.ContentBody):
                bodies.append(frame.value)
            data = data[size:]
        return bodies


@pytest.mark.spec("K10")
async def test_a_turns_messages_leave_in_one_piece_in_order_and_each_waits_for_its_own_confirm() -> None:
    channel = Channel()
    tasks = await channel.begun(200)
    assert await channel.sent() == [b"%d" % n for n in range(200)] and channel.write_queue.empty()
    channel.confirmations[7].set_result(None)
    await tasks[6]
    assert [n for n, task in enumerate(tasks) if task.done()] == [6]
    assert "m6" not in channel.message_id_delivery_tag and channel.message_id_delivery_tag["m7"] == 8
    for confirm in channel.confirmations.values():
        if not confirm.done():
            confirm.set_result(None)
    await asyncio.gather(*tasks)
    assert channel.message_id_delivery_tag == {}


@pytest.mark.spec("K10")
async def test_a_channel_that_was_replaced_is_closed_after_its_last_answer() -> None:
    closed: list[str] = []

    async def close() -> None:
        closed.append("closed")

    wire = Channel()
    channel = SimpleNamespace(is_closed=False, close=close)
    publisher = FastPublisher(SimpleNamespace(transport=None), channel, wire)  # type: ignore[arg-type]
    sending = [asyncio.create_task(publisher.publish(Message(f"m{n}", "a/b", b""))) for n in range(2)]
    await asyncio.sleep(0)
    closing = asyncio.create_task(publisher.close_when_drained())
    wire.confirmations[1].set_result(None)
    await sending[0]
    await asyncio.sleep(0)
    assert closed == []
    wire.confirmations[2].set_result(None)
    async with asyncio.timeout(30):
        await closing
    assert closed == ["closed"]


async def test_a_writer_that_has_no_room_is_given_everything_later_in_order() -> None:
    channel = Channel(queue_max=1)
    channel.write_queue.put_nowait(SimpleNamespace(payload=b""))
    tasks = [*await channel.begun(1)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await channel.sent() == [], "what stood in the way"
    async with asyncio.timeout(30):
        assert await channel.sent() == [b"0"]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert channel.message_id_delivery_tag == {}


@pytest.mark.spec("K10")
@pytest.mark.parametrize(
    "why", [ValueError("404"), asyncio.CancelledError(), None], ids=["error", "cancelled", "quiet"]
)
async def test_a_channel_that_closes_fails_what_is_in_flight_and_takes_nothing_more(why: BaseException | None) -> None:
    channel = Channel()
    tasks = await channel.begun(3)
    channel.confirmations[1].set_result(None)
    if why is None:
        channel.closing.set_result(None)
    else:
        channel.closing.set_exception(why)
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    wanted = ValueError if isinstance(why, ValueError) else ConnectionResetError
    assert [type(answer) for answer in answers] == [type(None), wanted, wanted]
    with pytest.raises(ChannelInvalidStateError):
        await channel.publisher().publish(Message("late", "a/b", b""))


def test_the_fast_way_was_tried_with_the_driver_that_is_installed() -> None:
    """It reaches past the driver's public names. After an upgrade run tests/transports, then name the version."""
    assert version("aiormq") in TRIED

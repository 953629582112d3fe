"""A publisher for many messages at a time, past the driver's own publish.

The driver's own publish takes a lock, a place in a queue of ten, three registrations and a generic encoder for each
message: 120 us, most of what a relay did. Here the messages of one turn of the event loop are encoded in a few lines
and go to the driver's writer in one piece. The driver keeps the rest: it reads the confirms and returns, and resolves
what is registered under a message's delivery tag.

That is more than the driver promises to keep: `TRIED` names the versions that it was seen with, and a test fails when
another one is installed. RABBITMQ_PUBLISHER=plain does without it.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Self

import pamqp.encode
import pamqp.frame
from aio_pika.abc import AbstractChannel, AbstractConnection
from aiormq import spec
from aiormq.abc import ChannelFrame
from aiormq.channel import Channel as Wire
from aiormq.exceptions import ChannelInvalidStateError

from holdfast.transports.rabbitmq.publisher import Publisher, unencodable
from holdfast.transports.seam import Message

TRIED = ("7.2.4",)
"""Versions of aiormq with which every test of the transports was seen to pass."""
HEADER, BODY, END = 2, 3, b"\xce"
CONTENT_TYPE, HEADERS, DELIVERY_MODE, CORRELATION_ID, MESSAGE_ID, TIMESTAMP, TYPE = (
    1 << bit for bit in (15, 13, 12, 10, 7, 6, 5)
)
TRANSIENT, PERSISTENT = b"\x01", b"\x02"
SHORT_MAX = 255
FULL_S = 0.005
_frame_head = struct.Struct(">BHI").pack
_content_head = struct.Struct(">HHQH").pack
_long = struct.Struct(">I").pack
_moment = struct.Struct(">Q").pack


class FastPublisher(Publisher):
    """Publishes what is given in one turn of the loop in one piece."""

    def __init__(self, connection: AbstractConnection, channel: AbstractChannel, wire: Wire) -> None:
        super().__init__(connection, channel)
        self._wire = wire
        self._loop = asyncio.get_running_loop()
        self._pieces: list[bytes] = []
        self._closing = wire.closing
        self._closing.add_done_callback(self._lost)

    @classmethod
    async def on(cls, connection: AbstractConnection) -> Self:
        channel = await connection.channel(on_return_raises=True)
        wire = await channel.get_underlay_channel()
        assert isinstance(wire, Wire)
        return cls(connection, channel, wire)

    async def publish(self, message: Message) -> None:
        """Return when the broker has confirmed the message; raise what the driver says otherwise."""
        if self.connection.transport is not None:
            await self.connection.transport.ready()  # returns at once unless the broker has blocked us
        try:
            frames = encoded(message, self._wire.number, self._wire.max_content_size)
        except (TypeError, ValueError) as error:
            raise unencodable(message, error) from error
        tag = self._send(frames)
        confirm = self._wire.confirmations[tag] = self._loop.create_future()
        tags = self._wire.message_id_delivery_tag  # the driver finds a returned message by its id
        tags[message.id] = tag
        with self._counting():
            try:
                await confirm
            finally:
                if tags.get(message.id) == tag:
                    del tags[message.id]

    def _send(self, frames: bytes) -> int:
        if self._wire.is_closed:
            raise ChannelInvalidStateError("The channel was closed.")
        if not self._pieces:
            self._loop.call_soon(self._flush)
        self._pieces.append(frames)
        self._wire.delivery_tag += 1
        return self._wire.delivery_tag

    def _flush(self) -> None:
        try:
            self._wire.write_queue.put_nowait(ChannelFrame(b"".join(self._pieces), should_close=False))
        except asyncio.QueueFull:
            self._loop.call_later(FULL_S, self._flush)
        else:
            self._pieces = []

    def _lost(self, closing: asyncio.Future[object]) -> None:
        """The channel is closed: whatever is not confirmed by now never will be."""
        why = None if closing.cancelled() else closing.exception()
        error = why if isinstance(why, Exception) else ConnectionResetError("The channel is gone.")
        for confirm in self._wire.confirmations.values():
            if isinstance(confirm, asyncio.Future) and not confirm.done():
                confirm.set_exception(error)


def encoded(message: Message, channel: int, body_max: int) -> bytes:
    """The frames of a publish: method, content header, body in pieces the broker takes. Raises `ValueError`."""
    exchange, _, key = message.destination.rpartition("/")
    header = _header(message)
    body = message.body
    pieces = [_method(exchange, key, channel), _frame_head(HEADER, channel, len(header)), header, END]
    for start in range(0, len(body), body_max):
        piece = body[start : start + body_max]
        pieces += (_frame_head(BODY, channel, len(piece)), piece, END)
    return b"".join(pieces)


@lru_cache(maxsize=256)
def _method(exchange: str, key: str, channel: int) -> bytes:
    publish = spec.Basic.Publish(exchange=exchange, routing_key=key, mandatory=True)
    return pamqp.frame.marshal(publish, channel)


def _header(message: Message) -> bytes:
    """Properties in the order of the protocol; each that is there sets its flag."""
    flags = CONTENT_TYPE | HEADERS | DELIVERY_MODE | MESSAGE_ID | TIMESTAMP
    parts = [_short(message.content_type), _table(message.headers), PERSISTENT if message.persistent else TRANSIENT]
    if message.correlation_id:
        flags |= CORRELATION_ID
        parts.append(_short(message.correlation_id))
    parts += (_short(message.id), _moment(int(time.time())))
    if message.type:
        flags |= TYPE
        parts.append(_short(message.type))
    return _content_head(spec.Basic.frame_id, 0, len(message.body), flags) + b"".join(parts)


def _short(text: str) -> bytes:
    data = text.encode()
    if len(data) > SHORT_MAX:
        raise ValueError(f"'{text[:40]}...' has {len(data)} bytes, {SHORT_MAX} are allowed")
    return b"%c%b" % (len(data), data)


def _table(headers: Mapping[str, object]) -> bytes:
    parts = []
    for name, value in headers.items():
        if not isinstance(value, str):
            return pamqp.encode.field_table(dict(headers))  # type: ignore[arg-type]  # it says what it cannot encode
        data = value.encode()
        parts.append(b"%bS%b%b" % (_short(name), _long(len(data)), data))
    table = b"".join(parts)
    return _long(len(table)) + table

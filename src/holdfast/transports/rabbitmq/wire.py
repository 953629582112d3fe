"""What strangers put on the wire, read without trust; and what we put there, sent together.

The driver decodes a message's properties while it reads the socket: an id that is not UTF-8, a timestamp in
nanoseconds or a table nested ten thousand deep ends its connection, the broker offers the message again, and so for
ever. Here such a message arrives with no properties instead, and its handler decides.

The driver gives every frame to the socket by itself, one in a turn of the event loop. Here frames that follow each
other go out in one call: a system call per message was a quarter of the publisher's CPU.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import uuid4

import aio_pika
import pamqp.frame
from aiormq.abc import DeliveredMessage
from aiormq.connection import TCPTransportFactory, TLSTransportFactory, TransportFactory
from yarl import URL

from holdfast.transports.seam import Delivery

log = logging.getLogger("holdfast.rabbitmq")

FRAME_HEAD_BYTES = 7
CONTENT_HEADER = 2
GATHERED_MAX = 64
MESSAGE_ID_FLAG = b"\x00\x80"
UNREADABLE = "unreadable-"
"""How the id begins that a message gets whose properties cannot be decoded: the hash of those."""


def delivery_of(queue: str, message: DeliveredMessage) -> Delivery:
    """The delivery, whatever types its headers have."""
    properties = message.header.properties
    headers = properties.headers
    message_id = properties.message_id or None
    if message_id is not None and message_id.startswith(UNREADABLE):
        # What comes for the first time is another message than any before, were it alike to the last byte.
        again = hashlib.sha256(message.body).hexdigest()[:32] if message.redelivered else uuid4()
        message_id = f"{message_id}-{again}"
    return Delivery(
        queue=queue,
        body=message.body,
        message_id=message_id,
        headers={str(name): _text(value) for name, value in headers.items()} if headers else {},
        redelivered=bool(message.redelivered),
    )


def _text(value: object) -> str:
    """A header's value as text: bytes are read as UTF-8, tables and lists become JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping | list):
        try:
            return json.dumps(value, default=_text, ensure_ascii=False)
        except (RecursionError, TypeError, ValueError):
            return ""
    return "" if value is None else str(value)


class PatientConnection(aio_pika.Connection):
    """A connection that survives properties it cannot decode."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kwargs["transport_factory"] = _PatientFactory()


class _PatientFactory(TransportFactory):
    async def create(self, url: URL, **kwargs: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        inner = TLSTransportFactory() if url.scheme == "amqps" else TCPTransportFactory()
        reader, writer = await inner.create(url, **kwargs)
        return _PatientReader(reader), _GatheringWriter(writer)


class _PatientReader(asyncio.StreamReader):
    """Hands out one frame after the other, in the pieces the driver asks for."""

    def __init__(self, inner: asyncio.StreamReader) -> None:
        super().__init__()
        self._inner = inner
        self._frame = b""
        self._given = 0

    def at_eof(self) -> bool:
        return self._given >= len(self._frame) and self._inner.at_eof()

    async def read(self, n: int = -1) -> bytes:
        return await self._inner.read(n)

    async def readexactly(self, n: int) -> bytes:
        if self._given >= len(self._frame):
            self._frame, self._given = await self._next(), 0
        piece = self._frame[self._given : self._given + n]
        self._given += n
        return piece

    async def _next(self) -> bytes:
        head = await self._inner.readexactly(FRAME_HEAD_BYTES)
        if head.startswith(b"AMQP"):  # the broker speaks another version: the driver has words for that
            return head
        frame = head + await self._inner.readexactly(int.from_bytes(head[3:]) + 1)
        return _decodable(frame) if head[0] == CONTENT_HEADER else frame


class _GatheringWriter(asyncio.StreamWriter):
    """Keeps what is written until a turn of the event loop adds nothing to it, then sends it in one piece."""

    def __init__(self, inner: asyncio.StreamWriter) -> None:
        self._inner = inner
        self._pieces: list[bytes] = []
        self._seen = 0
        self._next_turn = asyncio.get_running_loop().call_soon

    @property
    def transport(self) -> asyncio.WriteTransport:
        return self._inner.transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._pieces:
            self._seen = 0
            self._next_turn(self._look)
        self._pieces.append(bytes(data))

    def _look(self) -> None:
        if self._seen < len(self._pieces) < GATHERED_MAX:
            self._seen = len(self._pieces)
            self._next_turn(self._look)
        else:
            self._flush()

    def _flush(self) -> None:
        pieces, self._pieces = self._pieces, []
        if pieces:
            self._inner.write(b"".join(pieces))

    async def drain(self) -> None:
        self._flush()
        await self._inner.drain()

    def close(self) -> None:
        self._flush()
        self._inner.close()

    def is_closing(self) -> bool:
        return self._inner.is_closing()

    async def wait_closed(self) -> None:
        await self._inner.wait_closed()

    def can_write_eof(self) -> bool:
        return self._inner.can_write_eof()

    def write_eof(self) -> None:
        self._flush()
        self._inner.write_eof()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._inner.get_extra_info(name, default)

    def __del__(self, *_: object) -> None:
        """The inner writer looks after its own end; this one opened nothing."""


def _decodable(frame: bytes) -> bytes:
    """The content header as it is, or without its properties if the driver could not read them."""
    try:
        pamqp.frame.unmarshal(frame)
    except Exception as error:  # the decoder fails in any way that hostile bytes can make it fail
        log.warning("A message came with properties that cannot be decoded (%s).", type(error).__name__)
        identity = f"{UNREADABLE}{hashlib.sha256(frame).hexdigest()[:32]}".encode()
        # Class, weight and body size as they were; of the properties only an id, so that no two of these are merged.
        kept = frame[FRAME_HEAD_BYTES : FRAME_HEAD_BYTES + 12]
        payload = kept + MESSAGE_ID_FLAG + len(identity).to_bytes(1) + identity
        return frame[:3] + len(payload).to_bytes(4) + payload + frame[-1:]
    return frame

"""Looks at one broker: its version, and of which type the queues are that are there. Declares nothing that is not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import aio_pika
from aio_pika.abc import AbstractConnection
from aio_pika.exceptions import ChannelNotFoundEntity, ChannelPreconditionFailed
from yarl import URL

from holdfast.transports.rabbitmq.link import LOSSES
from holdfast.transports.seam import Queue

LIMIT_S = 10.0


async def examine(url: str, queues: Sequence[Queue], queue_type: str) -> tuple[str, str, bool]:
    """Where it is, what was found in a few words, and whether that is well."""
    place = str(URL(url).with_user(None).with_query(None))
    try:
        async with asyncio.timeout(LIMIT_S):
            connection = await aio_pika.connect(url)
            try:
                there = [await _state(connection, queue, queue_type) for queue in queues]
                found = [_version(connection), f"{there.count('')} of {len(queues)} queues are not declared yet"]
                others = [f"'{each.name}' {state}" for each, state in zip(queues, there, strict=True) if state]
                wrong = [text for text in others if not text.endswith(f" is {queue_type}")]
            finally:
                await connection.close()
    except (*LOSSES, aio_pika.exceptions.AMQPException) as error:
        return place, f"cannot be reached ({type(error).__name__}: {error})".replace(": )", ")"), False
    if wrong:
        return place, ", ".join([*found, *wrong, f"but RABBITMQ_QUEUE_TYPE is {queue_type}"]), False
    return place, ", ".join([*found, f"queues are {queue_type}"]), True


def _version(connection: AbstractConnection) -> str:
    transport = connection.transport
    properties = getattr(getattr(transport, "connection", None), "server_properties", None) or {}
    return f"{_text(properties.get('product', 'a broker'))} {_text(properties.get('version', ''))}".strip()


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


async def _state(connection: AbstractConnection, queue: Queue, queue_type: str) -> str:
    """'' if it is not there, else of which type it is, as far as the broker tells."""
    try:
        async with connection.channel() as channel:
            await channel.declare_queue(queue.name, passive=True)
    except ChannelNotFoundEntity:
        return ""
    other = "quorum" if queue_type == "classic" else "classic"
    arguments: dict[str, Any] = {"x-queue-type": queue_type} if queue_type != "classic" else {}
    try:
        async with connection.channel() as channel:
            await channel.declare_queue(queue.name, durable=True, arguments=arguments)
    except ChannelPreconditionFailed as error:
        return f"is {other}" if "x-queue-type" in str(error) else f"has other arguments and is {queue_type}"
    return f"is {queue_type}"

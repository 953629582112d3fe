"""A connection to RabbitMQ that is opened when somebody needs it, and again after it was lost.

Whoever comes while it is being opened shares the attempt, and its failure: fifty publishes on a dead broker are one
connection attempt. Queues that were declared are declared again on every new connection, plainly, as a foreign service
would; a queue that exists with other arguments is used as it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import (
    CONNECTION_EXCEPTIONS,
    AuthenticationError,
    ChannelPreconditionFailed,
    ProbableAuthenticationError,
)
from aiormq.exceptions import ChannelAccessRefused, ConnectionNotAllowed
from yarl import URL

from holdfast.errors import TransportDown
from holdfast.transports.addresses import split_addresses
from holdfast.transports.rabbitmq.wire import PatientConnection
from holdfast.transports.seam import Queue

log = logging.getLogger("holdfast.rabbitmq")

LOSSES = (*CONNECTION_EXCEPTIONS, TimeoutError)
REFUSALS = (AuthenticationError, ChannelAccessRefused, ConnectionNotAllowed, ProbableAuthenticationError)
"""What a broker that is there says to a user whom it does not know, or who may not do this."""
CLOSE_S = 3.0
OPENING_S = 0.5
"""How long an opening that nobody waits for any more may take to end by itself."""
TRY_S = 3.0
"""An address that does not answer is given at least so long, however many there are."""
HEARTBEAT_S = 20


class Link:
    """One connection. `queues` may grow: every new connection declares what is in it by then."""

    def __init__(
        self, url: str, name: str, queues: dict[str, Queue], timeout_s: float, queue_type: str = "classic"
    ) -> None:
        urls = [URL(each) for each in split_addresses(url)]
        self.place = ",".join(str(each.with_user(None).with_query(None)) for each in urls)
        self._urls = [each.update_query({"heartbeat": str(HEARTBEAT_S), "name": name, **each.query}) for each in urls]
        self._queue_type = queue_type
        self._queues = queues
        self._timeout_s = timeout_s
        self._attempt: asyncio.Task[AbstractConnection] | None = None
        self._goodbyes: set[asyncio.Task[None]] = set()
        self._closed = False
        self.trouble: str | None = None
        """What the last attempt to connect failed with; None if it did not."""

    async def connection(self) -> AbstractConnection:
        """The open connection. Raises `TransportDown` if there is none to be had."""
        if self._closed:
            raise TransportDown("The transport is closed.")
        if self._attempt is None or (self._attempt.done() and not _is_open(self._attempt)):
            self.discard()
            self._attempt = asyncio.get_running_loop().create_task(self._connect())
            self._attempt.add_done_callback(retrieve)
        with losses("connect"):  # whoever shares the attempt may give it up for all
            return await asyncio.shield(self._attempt)

    async def declare(self, queues: Iterable[Queue]) -> None:
        with losses("declare the queues"):
            async with asyncio.timeout(self._timeout_s):
                await _declare(await self.connection(), queues, self._queue_type)

    def discard(self) -> None:
        """Throw the connection away: the next caller opens another."""
        attempt, self._attempt = self._attempt, None
        if attempt is None:
            return
        if not attempt.done():
            attempt.cancel()
        else:
            self._leave(attempt)

    async def close(self) -> None:
        """Close for good and wait for every goodbye, also that of an attempt under way; each is bounded in time."""
        self._closed = True
        attempt = self._attempt
        self.discard()
        if attempt is not None and not attempt.done():
            await asyncio.wait([attempt], timeout=CLOSE_S)
        if self._goodbyes:
            await asyncio.wait(self._goodbyes, timeout=CLOSE_S)

    async def _connect(self) -> AbstractConnection:
        """Try the addresses in turn. The one that fails, or was lost, goes to the end: the others come first."""
        for left in reversed(range(len(self._urls))):
            url = self._urls.pop(0)
            self._urls.append(url)
            try:
                connection = await self._connect_to(url)
            except TransportDown as error:
                self.trouble = str(error)
                if not left:
                    raise
                log.warning("%s %s is tried next.", error, self._urls[0].host)
            else:
                self.trouble = None
                return connection
        raise AssertionError("unreachable")

    async def _connect_to(self, url: URL) -> AbstractConnection:
        # In a task of its own: a driver that is cancelled at the last moment of an opening forgets what it has opened.
        connecting = aio_pika.connect(url, connection_class=PatientConnection)
        opening: asyncio.Task[AbstractConnection] = asyncio.get_running_loop().create_task(connecting)
        opening.add_done_callback(retrieve)
        try:
            with losses("connect"):
                async with asyncio.timeout(max(TRY_S, self._timeout_s / len(self._urls))):
                    connection = await asyncio.shield(opening)
                    await _declare(connection, list(self._queues.values()), self._queue_type)
        except BaseException:
            self._leave(opening)
            raise
        return connection

    def _leave(self, opening: asyncio.Task[AbstractConnection]) -> None:
        goodbye = asyncio.get_running_loop().create_task(_leave(opening))
        self._goodbyes.add(goodbye)
        goodbye.add_done_callback(self._goodbyes.discard)


async def _leave(opening: asyncio.Task[AbstractConnection]) -> None:
    """Close what was opened, or is about to be. An opening that takes long is given up."""
    await asyncio.wait([opening], timeout=OPENING_S)
    if not opening.done():
        opening.cancel()
        await asyncio.wait([opening], timeout=OPENING_S)
    if opening.done() and not opening.cancelled() and opening.exception() is None:
        await _close(opening.result())


@contextmanager
def losses(doing: str) -> Iterator[None]:
    """What the driver raises when the broker is away, in our words; and a cancellation, whatever it made of that. One
    that nobody asked this task for is a loss too: of an attempt that was shared, or of what was in flight on a dead
    connection. Taken for one of ours it would end a duty of the process without a word."""
    try:
        yield
        heed_cancellation()
    except (*LOSSES, asyncio.CancelledError) as error:
        heed_cancellation()
        raise TransportDown(in_words(doing, error)) from error


def in_words(doing: str, error: BaseException) -> str:
    """Why something cannot be done, for whoever must change something: the network, or the user's permissions."""
    if isinstance(error, REFUSALS):
        return f"RabbitMQ refuses this user: cannot {doing} ({error})."
    return f"RabbitMQ is away: cannot {doing} ({type(error).__name__})."


def is_cancelled() -> bool:
    """Whether somebody cancelled this very task, as opposed to the driver giving up on its own futures."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def heed_cancellation() -> None:
    """To be called after the driver was: it may answer a cancellation with an error of its own, or with a result."""
    if is_cancelled():
        raise asyncio.CancelledError


async def is_blocked(connection: AbstractConnection) -> bool:
    """Whether the broker has stopped reading from us because of an alarm (memory, disk)."""
    transport = connection.transport
    if transport is None or transport.connection.is_closed:
        return False
    try:
        async with asyncio.timeout(0):
            await transport.ready()
    except TimeoutError:
        return True
    return False


def _is_open(attempt: asyncio.Task[AbstractConnection]) -> bool:
    if attempt.cancelled() or attempt.exception() is not None:
        return False
    transport = attempt.result().transport
    return transport is not None and not transport.connection.is_closed


def retrieve(attempt: asyncio.Task[Any]) -> None:
    """Its failure is told to those who wait; if nobody does any more it is not news."""
    if not attempt.cancelled():
        attempt.exception()


async def _close(connection: AbstractConnection) -> None:
    with suppress(*LOSSES):
        async with asyncio.timeout(CLOSE_S):
            await connection.close()


async def _declare(connection: AbstractConnection, queues: Iterable[Queue], queue_type: str) -> None:
    wanted = list(queues)
    for exchange in sorted({queue.exchange for queue in wanted if queue.exchange}):
        await _declare_exchange(connection, exchange)
    for queue in wanted:
        await _declare_queue(connection, queue, queue_type)


async def _declare_exchange(connection: AbstractConnection, name: str) -> None:
    try:
        async with connection.channel() as channel:
            await channel.declare_exchange(name, "direct", durable=True)
    except ChannelPreconditionFailed:
        log.warning("The exchange '%s' exists with other arguments; it is used as it is.", name)


async def _declare_queue(connection: AbstractConnection, queue: Queue, queue_type: str) -> None:
    """A 406 costs the channel: what is there is then looked up on another one. A classic queue is declared plainly, so
    that a server's own default type may be another."""
    arguments: dict[str, Any] = {} if queue_type == "classic" else {"x-queue-type": queue_type}
    try:
        async with connection.channel() as channel:
            await channel.declare_queue(queue.name, durable=True, arguments=arguments)
            await _bind(channel, queue)
    except ChannelPreconditionFailed:
        log.warning("The queue '%s' exists with other arguments; it is used as it is.", queue.name)
        async with connection.channel() as channel:
            await _bind(channel, queue)


async def _bind(channel: AbstractChannel, queue: Queue) -> None:
    if queue.exchange:
        known = await channel.get_queue(queue.name, ensure=False)
        await known.bind(queue.exchange, queue.routing_key or queue.name)

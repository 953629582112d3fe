"""Consumes a queue forever: broker restarts, deleted queues, failing handlers and a store that is down included.

A message is acked when its handler has returned. A handler that raises keeps its message for a pause that doubles each
time the same message fails, up to five seconds, and then gives it back: others go on meanwhile, and nothing spins. A
store that is down fails every message alike, so then the whole queue is let go and taken up again after a pause.

Handlers run in tasks of their own, not in the driver's: the driver cancels its tasks when a connection is lost, in the
middle of a commit. At most `prefetch` messages are here at a time, in memory and in handlers together.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress

from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import ChannelNotFoundEntity
from aiormq.abc import AbstractChannel as Wire
from aiormq.abc import DeliveredMessage

from holdfast.errors import StoreError, TransportDown
from holdfast.transports.rabbitmq.link import CLOSE_S, LOSSES, Link, heed_cancellation, in_words
from holdfast.transports.rabbitmq.wire import delivery_of
from holdfast.transports.seam import Delivery, Handler, Queue

log = logging.getLogger("holdfast.rabbitmq")

PAUSE_S = 0.1
PAUSE_CAP_S = 5.0
REMEMBERED_MAX = 1_000
DRAIN_S = 10.0
SETUP_S = 10.0


async def consume(
    link: Link, queue: str, known: Mapping[str, Queue], handler: Handler, prefetch: int, stalled: dict[str, str]
) -> None:
    """Serve the queue until cancelled; what is in flight then is finished first, within a bound. While it cannot be
    served, and the broker is why, `stalled` has the reason."""
    failures = Failures()
    pause_s = 0.0
    while True:
        session = Session(queue, handler, failures, on_begin=lambda: stalled.pop(queue, None))
        try:
            await session.run(link, prefetch)
        except ChannelNotFoundEntity:
            stalled[queue] = "The queue is gone."
            await _declare_again(link, known.get(queue))
        except (*LOSSES, TransportDown, asyncio.CancelledError) as error:
            heed_cancellation()  # the driver's own cancellations are losses
            stalled[queue] = str(error) if isinstance(error, TransportDown) else in_words("consume the queue", error)
            log.warning("Consuming '%s' stopped: %s", queue, stalled[queue])
        except StoreError as error:  # the broker is not to blame
            log.warning("Consuming '%s' stopped: %s", queue, error)
        heed_cancellation()
        pause_s = min(PAUSE_CAP_S, PAUSE_S if session.served else max(PAUSE_S, pause_s * 2))
        await asyncio.sleep(pause_s)


async def _declare_again(link: Link, queue: Queue | None) -> None:
    """Somebody deleted the queue. What we declared once we declare again; what we did not may come by itself."""
    if queue is not None:
        log.warning("The queue '%s' is gone; it is declared again.", queue.name)
        with suppress(TransportDown):
            await link.declare([queue])


class Session:
    """One stretch of consuming: from an open channel until it is lost, or the store is."""

    def __init__(self, queue: str, handler: Handler, failures: Failures, on_begin: Callable[[], object]) -> None:
        self.served = 0
        self._queue = queue
        self._handler = handler
        self._failures = failures
        self._on_begin = on_begin
        self._over = asyncio.Event()
        self._why: BaseException | None = None
        self._busy: set[asyncio.Task[None]] = set()

    async def run(self, link: Link, prefetch: int) -> None:
        """Handle messages until something ends the session, and raise that."""
        channel, wire = await self._open(link, prefetch)
        async with asyncio.TaskGroup() as group:
            try:
                await self._begin(channel, wire, group)
                heed_cancellation()
                await self._over.wait()
            finally:
                await self._drain(channel, wire)
        if self._why is not None:
            raise self._why

    async def _open(self, link: Link, prefetch: int) -> tuple[AbstractChannel, Wire]:
        try:
            async with asyncio.timeout(SETUP_S):
                channel = await (await link.connection()).channel(publisher_confirms=False)
                await channel.set_qos(prefetch_count=prefetch)
                return channel, await channel.get_underlay_channel()
        except TimeoutError:
            link.discard()
            raise

    async def _begin(self, channel: AbstractChannel, wire: Wire, group: asyncio.TaskGroup) -> None:
        async def arrived(message: DeliveredMessage) -> None:
            task = group.create_task(self._handle(wire, message))
            self._busy.add(task)
            task.add_done_callback(self._busy.discard)

        def lost(_: object, error: BaseException | None) -> None:
            self._end(error if isinstance(error, Exception) else TransportDown("The channel was lost."))

        def cancelled(_: object) -> None:
            self._end(TransportDown("The broker cancelled the consumer."))

        channel.close_callbacks.add(lost)
        wire.on_consumer_cancel_callbacks.add(cancelled)
        try:
            await wire.basic_consume(self._queue, arrived, timeout=SETUP_S)
            self._on_begin()
        except LOSSES as error:
            self._end(error)

    def _end(self, why: BaseException) -> None:
        if not self._over.is_set():
            self._why = why
            self._over.set()

    async def _handle(self, wire: Wire, message: DeliveredMessage) -> None:
        assert message.delivery_tag is not None
        delivery = delivery_of(self._queue, message)
        try:
            await self._handler(delivery)
        except StoreError as error:
            self._end(error)  # nothing can be handled now: closing the channel gives everything back
            return
        except Exception as error:  # a handler may fail in any way; whichever it is, the message is offered again
            pause_s = self._failures.pause_s(delivery)
            name = type(error).__name__
            log.warning("A message of '%s' was not handled (%s); again in %.1f s.", self._queue, name, pause_s)
            await self._hold(pause_s)
            with suppress(*LOSSES):
                await wire.basic_nack(message.delivery_tag, requeue=True)
            return
        self.served += 1
        self._failures.forget(delivery)
        with suppress(*LOSSES):  # a lost ack is a message that comes again, and is known by its id
            await wire.basic_ack(message.delivery_tag, wait=False)

    async def _hold(self, pause_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._over.wait()

    async def _drain(self, channel: AbstractChannel, wire: Wire) -> None:
        """Take no more, let handlers finish and ack, then close: what is unacked goes back to its queue."""
        self._over.set()
        with suppress(*LOSSES):
            for tag in list(getattr(wire, "consumers", ())):
                await wire.basic_cancel(tag, timeout=CLOSE_S)
        if self._busy:
            await asyncio.wait(self._busy, timeout=DRAIN_S)
        for task in self._busy:
            task.cancel()
        with suppress(*LOSSES):
            async with asyncio.timeout(CLOSE_S):
                await channel.close()


class Failures:
    """How often a message failed here, for the last thousand that did. Forgetting one costs a shorter pause."""

    def __init__(self) -> None:
        self._counts: OrderedDict[object, int] = OrderedDict()

    def pause_s(self, delivery: Delivery) -> float:
        """Count one more failure of this message and say how long to keep it."""
        name = _name(delivery)
        count = self._counts.pop(name, 0) + 1
        self._counts[name] = count
        if len(self._counts) > REMEMBERED_MAX:
            self._counts.popitem(last=False)
        return min(PAUSE_CAP_S, PAUSE_S * float(2 ** min(count - 1, 10)))

    def forget(self, delivery: Delivery) -> None:
        if self._counts:
            self._counts.pop(_name(delivery), None)


def _name(delivery: Delivery) -> object:
    return delivery.message_id or hash(delivery.body)

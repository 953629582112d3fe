"""The outbox to RabbitMQ: the relay as every process runs it, and aio-pika alone with 200 outstanding confirms."""

from __future__ import annotations

import asyncio
import json
from uuid import uuid4

import aio_pika

from bench.runs.kernels import kernel_over
from bench.stopwatch import Figures, Stopwatch, amqp_url
from holdfast import App
from holdfast.engines.run import Duties, run
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.observe.watch import LogWatch
from holdfast.tables import outbox
from holdfast.transports.rabbitmq.transport import RabbitTransport
from holdfast.transports.seam import Queue

OUTSTANDING = 200
EXCHANGE, KEY = "bench", "bench.requests"
BODY = json.dumps({"messageType": KEY, "payload": {"text": "word " * 60}})
HEADERS = json.dumps({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
app = App("publishing", queues=[Queue(KEY, EXCHANGE, KEY)])


class Counting(LogWatch):
    """Notices how many messages were marked as published."""

    def __init__(self) -> None:
        super().__init__()
        self.published = 0

    def count(self, name: str, by: int = 1, **labels: str) -> None:
        if name == "outbox_published":
            self.published += by
        super().count(name, by, **labels)


async def relay(count: int) -> Figures:
    """From rows in the outbox to rows marked as confirmed, one relay process."""
    async with kernel_over([app]) as kernel:
        await _filled(kernel, count)
        watch = Counting()
        kernel.watch, kernel.transport = watch, RabbitTransport(amqp_url())
        await kernel.transport.declare(app.queues)
        stop, clock = asyncio.Event(), Stopwatch()
        running = asyncio.ensure_future(run(kernel, Duties(work=False, consume=False, keep=False), stop))
        while watch.published < count and not running.done():  # noqa: ASYNC110 - a mark has no event of its own
            await asyncio.sleep(0.002)
        figures = clock.stop(count)
        stop.set()
        await running
        await kernel.transport.close()
        return figures


async def _filled(kernel: Kernel, count: int) -> None:
    for start in range(0, count, 1_000):
        size = min(1_000, count - start)
        rows = [(str(uuid4()), str(uuid4()), f"{EXCHANGE}/{KEY}", KEY, BODY, HEADERS) for _ in range(size)]
        async with kernel.store.transaction() as tx:
            await outbox.put(tx, rows, kernel.now())


async def publish(count: int) -> Figures:
    """The floor: the same messages by aio-pika's own publish, from memory, with nothing marked anywhere."""
    connection = await aio_pika.connect(amqp_url())
    channel = await connection.channel(publisher_confirms=True)
    exchange = await channel.declare_exchange(EXCHANGE, "direct", durable=True)
    queue = await channel.declare_queue(KEY, durable=True)
    await queue.bind(exchange, KEY)
    left = iter(range(count))
    body, headers = BODY.encode(), json.loads(HEADERS)

    async def sender() -> None:
        for _ in left:
            message = aio_pika.Message(
                body,
                message_id=str(uuid4()),
                correlation_id=str(uuid4()),
                content_type="application/json",
                type=KEY,
                headers=headers,
                delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            )
            await exchange.publish(message, KEY)

    watch = Stopwatch()
    await asyncio.gather(*[sender() for _ in range(OUTSTANDING)])
    figures = watch.stop(count)
    await connection.close()
    return figures


TASKS = {"relay": relay, "publish": publish}

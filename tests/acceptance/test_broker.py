"""The outbox against a real broker: whatever happens to it, every row is published in the end, and blamed for nothing.

PostgreSQL, RabbitMQ, several relays at once, and a consumer that commits before it acks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import uuid4

import pytest

from holdfast.kernel.app import App
from holdfast.kernel.intake import once
from holdfast.kernel.kernel import Kernel, Registry, Tuning
from holdfast.kernel.loop import repeat
from holdfast.kernel.relay import relay_once
from holdfast.stores.postgres import PostgresStore
from holdfast.tables import outbox
from holdfast.transports.rabbitmq.transport import RabbitTransport
from holdfast.transports.seam import Delivery
from tests.services.postgres import PostgresServer
from tests.services.rabbitmq import RabbitMQServer
from tests.transports.parts import DEAD, PATIENCE_S, REQUESTS, consuming

pytestmark = pytest.mark.slow

TUNING = Tuning(relay_poll_s=0.2, relay_batch=20, relay_backoff_cap_s=1.0, relay_lease_s=10.0)


@dataclass
class Deployment:
    """Kernels of one database and one broker, each as a process of its own would have it."""

    database: str
    broker: str
    kernels: list[Kernel] = field(default_factory=list)

    async def open(self) -> Kernel:
        app = App("shop", queues=[REQUESTS, DEAD])
        transport = RabbitTransport(self.broker, timeout_s=5)
        kernel = Kernel(PostgresStore(self.database), Registry([app]), transport, tuning=TUNING)
        await kernel.migrate()
        self.kernels.append(kernel)
        return kernel

    async def close(self) -> None:
        for kernel in self.kernels:
            assert kernel.transport is not None
            await kernel.transport.close()
            await kernel.store.close()


@pytest.fixture
async def deployment(postgres_url: str, rabbitmq_url: str) -> AsyncIterator[Deployment]:
    made = Deployment(postgres_url, rabbitmq_url)
    yield made
    await made.close()


@asynccontextmanager
async def relays(deployment: Deployment, count: int) -> AsyncIterator[None]:
    stop = asyncio.Event()
    kernels = [await deployment.open() for _ in range(count)]
    async with asyncio.TaskGroup() as group:
        for kernel in kernels:
            group.create_task(repeat(kernel, "relay", relay_once, 0.2, stop, "outbox", TUNING.relay_backoff_cap_s))
        try:
            yield
        finally:
            stop.set()


async def put(kernel: Kernel, count: int, *, aggregate: str | None = None, key: str = "grading.request") -> list[str]:
    ids = [str(uuid4()) for _ in range(count)]
    rows = [(one, aggregate or one, f"vstep.exchange/{key}", "grading.request", '{"n": 1}', "{}") for one in ids]
    async with kernel.store.transaction() as tx:
        await outbox.put(tx, rows, kernel.now())
        await tx.notify("outbox")
    return ids


class Taken:
    """Handles a message as a service does: its id is recorded in the transaction of its effect."""

    def __init__(self, kernel: Kernel) -> None:
        self.handled: set[str] = set()
        self.first: list[str] = []
        self.deliveries = 0
        self._kernel = kernel
        self._news = asyncio.Event()

    async def __call__(self, delivery: Delivery) -> None:
        assert delivery.message_id is not None
        async with once(self._kernel, "shop", delivery.message_id, delivery.body) as (_, first):
            pass
        if first:
            self.first.append(delivery.message_id)
        self.handled.add(delivery.message_id)
        self.deliveries += 1
        self._news.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.handled) < count:
                self._news.clear()
                await self._news.wait()


async def drained(kernel: Kernel) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            async with kernel.store.reading() as tx:
                if not (await outbox.lag(tx)).pending:
                    return
            await asyncio.sleep(0.05)


@pytest.mark.spec("K10", "K11", "G3", "G17")
async def test_a_broker_killed_under_three_relays_delays_messages_and_loses_none(
    deployment: Deployment, rabbitmq_server: RabbitMQServer
) -> None:
    kernel = await deployment.open()
    assert kernel.transport is not None
    await kernel.transport.declare([REQUESTS, DEAD])
    taken = Taken(kernel)
    async with consuming(kernel.transport, taken), relays(deployment, 3):
        before = await put(kernel, 400)
        await taken.until(100)
        rabbitmq_server.halt(kill=True)
        during = await put(kernel, 50)
        rabbitmq_server.resume()
        after = await put(kernel, 50)
        await taken.until(500)
        await drained(kernel)
    # A handler that the lost connection ends right after its commit has written and not counted: it comes again.
    assert taken.handled == {*before, *during, *after} and len(taken.first) == len(set(taken.first))
    async with kernel.store.reading() as tx:
        rows = [row for one in before for row in await outbox.of_aggregate(tx, one, 1)]
    assert {(row.status, row.retry_count) for row in rows} == {("published", 0)}


@pytest.mark.spec("K10")
async def test_several_relays_publish_each_row_once_and_an_aggregate_in_order(deployment: Deployment) -> None:
    kernel = await deployment.open()
    assert kernel.transport is not None
    await kernel.transport.declare([REQUESTS, DEAD])
    taken = Taken(kernel)
    async with consuming(kernel.transport, taken, prefetch=1), relays(deployment, 3):
        mixed, ordered = await put(kernel, 200), await put(kernel, 20, aggregate="one")
        await taken.until(220)
        await drained(kernel)
    assert taken.deliveries == 220
    assert [one for one in taken.first if one in ordered] == ordered
    assert set(taken.first) == {*mixed, *ordered}


@pytest.mark.spec("K10")
async def test_one_row_that_no_queue_takes_delays_no_other(deployment: Deployment) -> None:
    kernel = await deployment.open()
    assert kernel.transport is not None
    await kernel.transport.declare([REQUESTS, DEAD])
    taken = Taken(kernel)
    bad = await put(kernel, 1, key="nobody.listens")
    good = await put(kernel, 60)
    async with consuming(kernel.transport, taken), relays(deployment, 1):
        await taken.until(60)
    assert sorted(taken.first) == sorted(good)
    async with kernel.store.reading() as tx:
        row = (await outbox.of_aggregate(tx, bad[0], 1))[0]
    assert row.status == "pending" and row.retry_count >= 1 and "nobody.listens" in row.error_message


@pytest.mark.spec("K11", "G17")
async def test_a_database_that_restarts_under_the_consumer_costs_no_message(
    deployment: Deployment, postgres_server: PostgresServer
) -> None:
    kernel = await deployment.open()
    assert kernel.transport is not None
    await kernel.transport.declare([REQUESTS, DEAD])
    taken = Taken(kernel)
    async with consuming(kernel.transport, taken), relays(deployment, 1):
        ids = await put(kernel, 200)
        await taken.until(50)
        postgres_server.restart(immediate=True)
        await taken.until(200)
        await drained(kernel)
    assert taken.handled == set(ids)
    assert len(set(taken.first)) == len(taken.first), "an effect that was committed is not repeated"

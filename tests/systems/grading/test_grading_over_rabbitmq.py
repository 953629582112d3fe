"""Both services over a real broker and two real databases, as they are deployed apart."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.services.postgres import PostgresServer
from tests.systems.grading.pair import WRITING, made_engine

from holdfast.engines.run import Duties, prepare, run
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.relay import relay_once
from holdfast.stores.postgres import PostgresStore
from holdfast.tables import outbox
from holdfast.transports.rabbitmq.transport import RabbitTransport
from holdfast.transports.seam import Delivery, Message
from holdfast_systems.grading import submissions
from holdfast_systems.grading.contract import REQUEST_QUEUE
from holdfast_systems.grading.grading_service import service_app
from holdfast_systems.grading.main_app import build_main, submit
from holdfast_systems.grading.settings import MainSettings
from holdfast_systems.grading.topology import DEAD_LETTERS, destination

COUNT = 12


@pytest.mark.slow
@pytest.mark.spec("G3", "G5", "G9", "G14", "G17", "000.5", "000.39")
async def test_apart_over_a_real_broker_nothing_is_lost_and_poison_is_laid_down(
    postgres_server: PostgresServer, rabbitmq_url: str, tmp_path: Path
) -> None:
    urls = [postgres_server.create_database(), postgres_server.create_database()]
    stop = asyncio.Event()
    apps = [build_main({}), service_app(made_engine(tmp_path))]
    main, service = [
        Kernel(PostgresStore(url), Registry([app]), RabbitTransport(rabbitmq_url))
        for url, app in zip(urls, apps, strict=True)
    ]
    for kernel in (main, service):
        await prepare(kernel)
    letters: asyncio.Queue[bytes] = asyncio.Queue()
    foreign = RabbitTransport(rabbitmq_url)
    await foreign.declare([DEAD_LETTERS])
    try:
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for kernel in (main, service):
                group.create_task(run(kernel, Duties(grace_s=1), stop))
            reading = group.create_task(_read(foreign, letters))
            ids = [await _submit(main) for _ in range(COUNT)]
            await _until_reviewed(main, ids)
            await foreign.publish(
                Message("6f1a7f5e-7c55-4f0e-9d3a-0a4d4b7c9a10", destination(REQUEST_QUEUE), b"poison")
            )
            letter = json.loads(await letters.get())
            reading.cancel()
            stop.set()
        assert letters.empty() and (letter["failureReason"], letter["originalMessage"]) == ("INVALID_INPUT", "poison")
        await _assert_nothing_left(main, service)
    finally:
        for transport in (main.transport, service.transport, foreign):
            assert transport is not None
            await transport.close()
        for kernel in (main, service):
            await kernel.store.close()
        for url in urls:
            postgres_server.drop_database(url)


async def _submit(kernel: Kernel) -> str:
    async with kernel.store.transaction() as tx:
        return (await submit(kernel, tx, MainSettings(), "ann", "writing", WRITING)).id


async def _until_reviewed(kernel: Kernel, ids: list[str]) -> None:
    listener = kernel.store.listen(submissions.CHANNEL)
    while True:
        async with kernel.store.reading() as tx:
            found = await submissions.in_review(tx, None, 2 * COUNT)
        if {one.id for one in found} == set(ids):
            listener.close()
            return
        await listener.wait(1.0)


async def _read(transport: RabbitTransport, letters: asyncio.Queue[bytes]) -> None:
    async def keep(delivery: Delivery) -> None:
        letters.put_nowait(delivery.body)

    await transport.consume(DEAD_LETTERS.name, keep)


async def _assert_nothing_left(*kernels: Kernel) -> None:
    for kernel in kernels:
        while await relay_once(kernel):
            pass
        async with kernel.store.reading() as tx:
            assert (await outbox.lag(tx)).pending == 0

"""pgqueuer's side of the bench, tuned as its documentation advises: asyncpg, batches of 100, bulk enqueue."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from datetime import timedelta

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

BATCH = 100
CALLERS = 32
PARALLEL = 400


async def noop(url: str, count: int) -> dict[str, float]:
    connection = await asyncpg.connect(url)
    driver = AsyncpgDriver(connection)
    queries = Queries(driver)
    for start in range(0, count, 1_000):
        size = min(1_000, count - start)
        await queries.enqueue(["noop"] * size, [b"{}"] * size, [0] * size)
    queue = PgQueuer(driver)

    @queue.entrypoint("noop")
    async def run(job: object) -> None:
        return None

    cpu, began = time.process_time(), time.perf_counter()
    await queue.qm.run(batch_size=BATCH, mode=QueueExecutionMode.drain, dequeue_timeout=timedelta(seconds=0.1))
    return {"jobs": count, "seconds": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}


async def enqueue(url: str, count: int) -> dict[str, float]:
    pool = await asyncpg.create_pool(url, min_size=CALLERS, max_size=CALLERS)
    queries = Queries(AsyncpgPoolDriver(pool))
    left = iter(range(count))

    async def caller() -> None:
        for _ in left:
            await queries.enqueue("noop", b"{}")

    cpu, began = time.process_time(), time.perf_counter()
    await asyncio.gather(*[caller() for _ in range(CALLERS)])
    return {"jobs": count, "seconds": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}


async def bulk(url: str, count: int) -> dict[str, float]:
    queries = Queries(AsyncpgDriver(await asyncpg.connect(url)))
    cpu, began = time.process_time(), time.perf_counter()
    for start in range(0, count, 1_000):
        size = min(1_000, count - start)
        await queries.enqueue(["noop"] * size, [b"{}"] * size, [0] * size)
    return {"jobs": count, "seconds": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}


async def pickup(url: str, count: int) -> dict[str, float]:
    queue = PgQueuer(AsyncpgDriver(await asyncpg.connect(url)))
    queries = Queries(AsyncpgDriver(await asyncpg.connect(url)))
    seen: list[float] = []

    @queue.entrypoint("stamp")
    async def run(job: object) -> None:
        seen.append(time.perf_counter())

    task = asyncio.ensure_future(queue.qm.run(batch_size=BATCH))
    await asyncio.sleep(1.0)
    waits = []
    for _ in range(count):
        seen.clear()
        began = time.perf_counter()
        await queries.enqueue("stamp", b"{}")
        while not seen:  # noqa: ASYNC110 - an event would add its own wake-up to the figure
            await asyncio.sleep(0)
        waits.append((seen[0] - began) * 1_000)
        await asyncio.sleep(0.02)
    queue.qm.shutdown.set()
    await task
    waits.sort()
    return {"jobs": count, "p50_ms": waits[count // 2], "p99_ms": waits[int(count * 0.99)]}


async def main(task: str, url: str, count: int) -> None:
    connection = await asyncpg.connect(url)
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()
    figures = await {"noop": noop, "enqueue": enqueue, "bulk": bulk, "pickup": pickup}[task](url, count)
    print(json.dumps(figures))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))

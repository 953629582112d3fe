"""pgqueuer's side of the bench: asyncpg, batches of 100, status updates buffered as it ships, bulk enqueue in lists."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from datetime import timedelta

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from bench.stopwatch import Figures, Stopwatch, database_cpu_s, latency, postgres_url, tell

BATCH = 100
CALLERS = 32
ROWS = 5_000
SETTINGS = (
    f"asyncpg driver on uvloop as `pgq run` does, batch_size {BATCH}, drain mode, lists of {ROWS} in bulk, "
    f"a pool of {CALLERS} for enqueue x{CALLERS}"
)


async def filled(queries: Queries, count: int) -> None:
    for start in range(0, count, ROWS):
        size = min(ROWS, count - start)
        await queries.enqueue(["noop"] * size, [b"{}"] * size, [0] * size)


async def drain() -> asyncpg.Connection:
    """Work until nothing is left. The connection is given back: its CPU is read from a living process only."""
    connection = await asyncpg.connect(postgres_url())
    queue = PgQueuer(AsyncpgDriver(connection))

    @queue.entrypoint("noop")
    async def run(job: object) -> None:
        return None

    await queue.qm.run(batch_size=BATCH, mode=QueueExecutionMode.drain, dequeue_timeout=timedelta(seconds=0.1))
    return connection


async def noop(count: int) -> Figures:
    await filled(Queries(AsyncpgDriver(await asyncpg.connect(postgres_url()))), count)
    watch = Stopwatch()
    connection = await drain()
    figures = watch.stop(count)
    await connection.close()
    return figures


async def noop2(count: int) -> Figures:
    """Two worker processes, from the word go until both have drained the queue."""
    await filled(Queries(AsyncpgDriver(await asyncpg.connect(postgres_url()))), count)
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, __file__, "share", "0"]
    workers = [await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe) for _ in range(2)]
    for worker in workers:
        assert worker.stdout is not None
        await worker.stdout.readline()
    database_s = database_cpu_s()
    answers = await asyncio.gather(*[worker.communicate(b"go\n") for worker in workers])
    shares = [json.loads(said.splitlines()[-1]) for said, _ in answers]
    seconds = max(share["ended"] for share in shares) - min(share["began"] for share in shares)
    worker_us = sum(share["cpu_s"] for share in shares) / count * 1e6
    database_us = (database_cpu_s() - database_s) / count * 1e6
    rate = {"per_s": count / seconds, "worker_us": worker_us, "database_us": database_us}
    return {"jobs": count, "seconds": seconds, **rate}


async def share(_: int) -> Figures:
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    began, cpu_s = time.perf_counter(), time.process_time()
    await drain()
    return {"began": began, "ended": time.perf_counter(), "cpu_s": time.process_time() - cpu_s}


async def enqueue32(count: int) -> Figures:
    pool = await asyncpg.create_pool(postgres_url(), min_size=CALLERS, max_size=CALLERS)
    queries, left = Queries(AsyncpgPoolDriver(pool)), iter(range(count))

    async def caller() -> None:
        for _ in left:
            await queries.enqueue("noop", b"{}")

    watch = Stopwatch()
    await asyncio.gather(*[caller() for _ in range(CALLERS)])
    return watch.stop(count)


async def bulk(count: int) -> Figures:
    queries = Queries(AsyncpgDriver(await asyncpg.connect(postgres_url())))
    await filled(queries, 1)
    watch = Stopwatch()
    await filled(queries, count)
    return watch.stop(count)


async def pickup(count: int) -> Figures:
    queue = PgQueuer(AsyncpgDriver(await asyncpg.connect(postgres_url())))
    queries = Queries(AsyncpgDriver(await asyncpg.connect(postgres_url())))
    seen: asyncio.Queue[float] = asyncio.Queue()

    @queue.entrypoint("stamp")
    async def run(job: object) -> None:
        seen.put_nowait(time.perf_counter())

    task = asyncio.ensure_future(queue.qm.run(batch_size=BATCH))
    await asyncio.sleep(1.0)
    waits = []
    for _ in range(count + 5):
        began = time.perf_counter()
        await queries.enqueue("stamp", b"{}")
        waits.append((await seen.get() - began) * 1_000)
        await asyncio.sleep(0.02)
    queue.qm.shutdown.set()
    await task
    return latency(waits[5:])


TASKS = {"noop": noop, "noop2": noop2, "share": share, "enqueue32": enqueue32, "bulk": bulk, "pickup": pickup}


async def main(task: str, count: int) -> None:
    if task != "share":
        connection = await asyncpg.connect(postgres_url())
        await Queries(AsyncpgDriver(connection)).install()
        await connection.close()
    tell(await TASKS[task](count))


if __name__ == "__main__":
    if sys.argv[1] == "settings":
        print(SETTINGS)
    else:
        uvloop.run(main(sys.argv[1], int(sys.argv[2])))

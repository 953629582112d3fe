"""Accepting jobs: one durable call each from many callers, in bulk, and inside the caller's own transaction."""

from __future__ import annotations

import asyncio
import statistics
import time

import asyncpg

from bench.runs.kernels import CALLERS, Noop, audited, kernel_over
from bench.stopwatch import Figures, Stopwatch, postgres_url
from holdfast import Client, enqueue

BARE = """INSERT INTO holdfast_jobs (id, kind, queue, stage, priority, run_at, created_at, updated_at, payload)
VALUES (gen_random_uuid(), 'bench.bare', 'bench', 'run', 2, $1, $1, $1, $2)"""


async def enqueue32(count: int) -> Figures:
    """One durable call each, from 32 callers at once."""
    async with kernel_over() as kernel:
        client, left = Client(kernel), iter(range(count))

        async def caller() -> None:
            for n in left:
                await client.enqueue(Noop, {"n": n})

        watch = Stopwatch()
        await asyncio.gather(*[caller() for _ in range(CALLERS)])
        return await audited(kernel, watch.stop(count))


async def bulk(count: int) -> Figures:
    """Many at once, from Python values to durable rows."""
    async with kernel_over() as kernel:
        await Client(kernel).enqueue_many(Noop, [{"n": 0}])
        watch = Stopwatch()
        await Client(kernel).enqueue_many(Noop, ({"n": n} for n in range(count)))
        return await audited(kernel, watch.stop(count))


async def inside(count: int) -> Figures:
    """A transaction of the caller's that enqueues, and one with a bare INSERT of such a row in its place, in turn."""
    async with kernel_over():
        connection = await asyncpg.connect(postgres_url())

        async def ours() -> None:
            await enqueue(connection, Noop, {"n": 1})

        async def bare() -> None:
            await connection.execute(BARE, int(time.time() * 1_000), '{"n":1}')

        times: dict[str, list[float]] = {"ours": [], "bare": [], "ours_alone": [], "bare_alone": []}
        for n in range(count + 20):
            for name, write in (("ours", ours), ("bare", bare)) if n % 2 else (("bare", bare), ("ours", ours)):
                began = time.perf_counter()
                async with connection.transaction():
                    before = time.perf_counter()
                    await write()
                    alone = time.perf_counter() - before
                if n >= 20:  # the first ones prepare statements
                    times[name].append((time.perf_counter() - began) * 1e6)
                    times[f"{name}_alone"].append(alone * 1e6)
        await connection.close()
        return {"jobs": count} | {f"{name}_us": statistics.median(taken) for name, taken in times.items()}


TASKS = {"enqueue32": enqueue32, "bulk": bulk, "inside": inside}

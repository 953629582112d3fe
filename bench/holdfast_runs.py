"""Holdfast's side of the bench: one task per call, its figures as one JSON line.

python bench/holdfast_runs.py noop postgresql://... 20000
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from holdfast import App, Context, Job, stage
from holdfast.engines.worker import Worker
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.submit import Order, SharedCommit, prepare, submit_orders
from holdfast.main import open_store

CONCURRENCY = 400
CALLERS = 32
app = App("bench")
seen: list[float] = []


@app.job()
class Noop(Job[dict[str, int]]):
    @stage()
    async def run(self, ctx: Context, input: dict[str, int]) -> None:
        return None


@app.job()
class Stamp(Job[dict[str, int]]):
    @stage()
    async def run(self, ctx: Context, input: dict[str, int]) -> None:
        seen.append(time.perf_counter())


def orders(kernel: Kernel, count: int) -> list[Order]:
    kind = Noop.__holdfast__
    return [prepare(kind, {"n": n}, job_id=kernel.new_id(), now=kernel.now()) for n in range(count)]


async def noop(kernel: Kernel, count: int) -> dict[str, float]:
    """Empty jobs, from queued to succeeded, with every guarantee on."""
    await submit_orders(kernel, orders(kernel, count))
    worker, stop = Worker(kernel, concurrency=CONCURRENCY), asyncio.Event()
    cpu, began = time.process_time(), time.perf_counter()
    running = asyncio.ensure_future(worker.run(stop))
    while worker.completed < count:  # noqa: ASYNC110 - what is settled has no event of its own
        await asyncio.sleep(0.005)
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    stop.set()
    await running
    return {"jobs": count, "seconds": seconds, "cpu_s": cpu_s}


async def enqueue(kernel: Kernel, count: int) -> dict[str, float]:
    """One durable call each, from 32 callers at once."""
    shared = SharedCommit(kernel)
    left = iter(range(count))

    async def caller() -> None:
        for n in left:
            await shared.submit(Noop, {"n": n})

    cpu, began = time.process_time(), time.perf_counter()
    await asyncio.gather(*[caller() for _ in range(CALLERS)])
    return {"jobs": count, "seconds": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}


async def bulk(kernel: Kernel, count: int) -> dict[str, float]:
    """Many at once, by the thousand."""
    cpu, began = time.process_time(), time.perf_counter()
    await submit_orders(kernel, orders(kernel, count))
    return {"jobs": count, "seconds": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}


async def pickup(kernel: Kernel, count: int) -> dict[str, float]:
    """On an idle system: from the call to the handler's start, in milliseconds."""
    worker, stop, shared = Worker(kernel, concurrency=CONCURRENCY), asyncio.Event(), SharedCommit(kernel)
    running = asyncio.ensure_future(worker.run(stop))
    await asyncio.sleep(0.5)
    waits = []
    for n in range(count):
        seen.clear()
        began = time.perf_counter()
        await shared.submit(Stamp, {"n": n})
        while not seen:  # noqa: ASYNC110 - an event would add its own wake-up to the figure
            await asyncio.sleep(0)
        waits.append((seen[0] - began) * 1_000)
        await asyncio.sleep(0.02)
    stop.set()
    await running
    waits.sort()
    return {"jobs": count, "p50_ms": waits[count // 2], "p99_ms": waits[int(count * 0.99)]}


async def main(task: str, url: str, count: int) -> None:
    kernel = Kernel(open_store(url), Registry([app]))
    await kernel.migrate()
    figures = await {"noop": noop, "enqueue": enqueue, "bulk": bulk, "pickup": pickup}[task](kernel, count)
    await kernel.store.close()
    print(json.dumps(figures))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))

"""How long a job waits on an idle system: from the call to the handler's first line, which is what takes the time.

Whoever asked sleeps meanwhile. (It used to look again and again: a core that spins is not an idle system.)
"""

from __future__ import annotations

import asyncio
import time

from bench.runs.kernels import CONCURRENCY, kernel_over
from bench.stopwatch import Figures, folder, latency
from holdfast import App, Client, Context, Job, stage
from holdfast.engines.worker import Worker
from holdfast.kernel.kernel import Kernel

PAUSE_S = 0.02
seen: asyncio.Queue[float] = asyncio.Queue()
app = App("pickup")


@app.job()
class Stamp(Job[int]):
    @stage()
    async def run(self, ctx: Context, number: int) -> None:
        seen.put_nowait(time.perf_counter())


async def pickup(count: int) -> Figures:
    async with kernel_over([app]) as kernel:
        return latency(await waits(kernel, count))


async def pickup_sqlite(count: int) -> Figures:
    async with kernel_over([app], f"sqlite:///{folder() / 'pickup.db'}") as kernel:
        return latency(await waits(kernel, count))


async def waits(kernel: Kernel, count: int) -> list[float]:
    """What so many jobs waited, in milliseconds, one after the other."""
    worker, stop, client = Worker(kernel, concurrency=CONCURRENCY), asyncio.Event(), Client(kernel)
    running = asyncio.ensure_future(worker.run(stop))
    await asyncio.sleep(0.5)
    waited: list[float] = []
    for number in range(count + 5):
        began = time.perf_counter()
        await client.enqueue(Stamp, number)
        waited.append((await seen.get() - began) * 1_000)
        await asyncio.sleep(PAUSE_S)
    stop.set()
    await running
    return waited[5:]  # the first ones prepare statements


TASKS = {"pickup": pickup, "pickup_sqlite": pickup_sqlite}

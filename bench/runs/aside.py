"""Stages that block: `def` in a thread of the worker, `cpu=True` in a process of its own."""

from __future__ import annotations

import asyncio
import os

from bench.runs.aside_floor import CALLS_AT_ONCE, WARM, block, compute
from bench.runs.kernels import audited, kernel_over
from bench.stopwatch import Figures, Stopwatch, tree_cpu_s
from holdfast import App, Client, Context, Job, SyncContext, stage
from holdfast.engines.worker import Worker

TICK_S = 0.005
app = App("bench")


@app.job()
class Empty(Job[int]):
    @stage()
    def run(self, ctx: SyncContext, number: int) -> None:
        return None


@app.job()
class EmptyOnTheLoop(Job[int]):
    @stage()
    async def run(self, ctx: Context, number: int) -> None:
        return None


@app.job()
class Blocks(Job[int]):
    @stage()
    def run(self, ctx: SyncContext, number: int) -> None:
        block(number)


@app.job()
class Computes(Job[int]):
    @stage(cpu=True)
    def run(self, ctx: SyncContext, number: int) -> int:
        return compute(number)


async def _run(job: type[Job[int]], count: int) -> Figures:
    """Jobs that wait when the worker starts. The first ones, which start threads and processes, are not counted."""
    async with kernel_over([app]) as kernel:
        await Client(kernel).enqueue_many(job, range(count + WARM))
        worker, stop = Worker(kernel, concurrency=CALLS_AT_ONCE), asyncio.Event()
        running = asyncio.ensure_future(worker.run(stop))
        await _until(worker, WARM, running)
        begun = worker.completed
        watch, cpu_s = Stopwatch(), tree_cpu_s(os.getpid())
        await _until(worker, count + WARM, running)
        done = worker.completed - begun
        figures = watch.stop(done) | {"worker_us": (tree_cpu_s(os.getpid()) - cpu_s) / done * 1e6}
        stop.set()
        await running
        return await audited(kernel, figures)


async def _until(worker: Worker, completed: int, running: asyncio.Future[None]) -> None:
    while worker.completed < completed and not running.done():  # noqa: ASYNC110 - what is settled has no event
        await asyncio.sleep(TICK_S)


async def threads(count: int) -> Figures:
    return await _run(Empty, count)


async def threads_loop(count: int) -> Figures:
    return await _run(EmptyOnTheLoop, count)


async def threads_block(count: int) -> Figures:
    return await _run(Blocks, count)


async def processes(count: int) -> Figures:
    return await _run(Computes, count)


TASKS = {
    "threads": threads,
    "threads_loop": threads_loop,
    "threads_block": threads_block,
    "processes": processes,
}

"""Jobs from queued to succeeded, with every guarantee on: by one worker process, and by two."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from bench.runs.kernels import CONCURRENCY, Three, app, audited, kernel_over, orders
from bench.stopwatch import Figures, Stopwatch, database_cpu_s, postgres_url
from holdfast.engines.collecting import collect_seldom
from holdfast.engines.worker import Worker
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.submit import prepare, submit_orders
from holdfast.main import open_store

TICK_S = 0.005
QUIET_S = 1.0


async def noop(count: int) -> Figures:
    """Empty jobs, one worker process."""
    async with kernel_over() as kernel:
        await submit_orders(kernel, orders(kernel, count))
        return await audited(kernel, await drained(kernel, count, count))


async def three(count: int) -> Figures:
    """Jobs of three stages with an effect in each."""
    async with kernel_over() as kernel:
        kind = Three.__holdfast__
        ordered = [prepare(kind, n, job_id=kernel.new_id(), now=kernel.now()) for n in range(count)]
        await submit_orders(kernel, ordered)
        return await audited(kernel, await drained(kernel, count * 3, count))


async def drained(kernel: Kernel, attempts: int, jobs: int) -> Figures:
    worker, stop = Worker(kernel, concurrency=CONCURRENCY), asyncio.Event()
    watch = Stopwatch()
    running = asyncio.ensure_future(worker.run(stop))
    while worker.completed < attempts and not running.done():  # noqa: ASYNC110 - what is settled has no event
        await asyncio.sleep(TICK_S)
    figures = watch.stop(jobs)
    stop.set()
    await running
    return figures


async def noop2(count: int) -> Figures:
    """Empty jobs, two worker processes, from the word go to the last ending."""
    async with kernel_over() as kernel:
        await submit_orders(kernel, orders(kernel, count))
        database_s = database_cpu_s()
        answers = await _two_processes()
        database_s = database_cpu_s() - database_s
        done = sum(int(answer["completed"]) for answer in answers)
        if done != count:
            raise RuntimeError(f"{done} jobs of {count} were done")
        seconds = max(answer["ended"] for answer in answers) - min(answer["began"] for answer in answers)
        worker_us = sum(answer["cpu_s"] for answer in answers) / count * 1e6
        rate = {"per_s": count / seconds, "worker_us": worker_us, "database_us": database_s / count * 1e6}
        return await audited(kernel, {"jobs": count, "seconds": seconds, **rate})


async def _two_processes() -> list[dict[str, float]]:
    command = [sys.executable, "-m", "bench.runs.holdfast", "share", "0"]
    pipe = asyncio.subprocess.PIPE
    workers = [await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe) for _ in range(2)]
    for worker in workers:
        assert worker.stdout is not None
        await worker.stdout.readline()
    answers = await asyncio.gather(*[worker.communicate(b"go\n") for worker in workers])
    return [json.loads(said.splitlines()[-1]) for said, _ in answers]


async def share(_: int) -> Figures:
    """One of several workers: says that it is ready, begins when told to, ends when nothing has come for a while."""
    kernel = Kernel(open_store(postgres_url()), Registry([app]))
    async with kernel.store.reading():
        print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    worker, stop = Worker(kernel, concurrency=CONCURRENCY), asyncio.Event()
    began, cpu_s = time.perf_counter(), time.process_time()
    with collect_seldom(CONCURRENCY):
        running = asyncio.ensure_future(worker.run(stop))
        seen, changed, used_s = 0, began, 0.0
        while time.perf_counter() - changed < QUIET_S:
            await asyncio.sleep(TICK_S)
            if worker.completed != seen:
                seen, changed, used_s = worker.completed, time.perf_counter(), time.process_time() - cpu_s
        stop.set()
        await running
    await kernel.store.close()
    return {"completed": seen, "began": began, "ended": changed, "cpu_s": used_s}


TASKS = {"noop": noop, "three": three, "noop2": noop2, "share": share}

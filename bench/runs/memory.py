"""A worker's memory: at rest, as `holdfast worker` is started by people, and over very many jobs."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import asyncpg

from bench.arithmetic import slope
from bench.runs.filling import fill
from bench.runs.kernels import CONCURRENCY, kernel_over
from bench.stopwatch import Figures, postgres_url, rss_mb
from holdfast.engines.worker import Worker

PARTS = 40
REST_S = 4.0


async def idle(_: int) -> Figures:
    """The real command, with an app of one's own and without the systems, a few seconds after its start."""
    async with kernel_over():
        pass
    command = [sys.executable, "-c", "from holdfast.cli import cli; cli()", "worker", "--app", "bench.runs.plain:app"]
    env = os.environ | {"DATABASE_URL": postgres_url(), "PYTHONPATH": os.environ.get("PYTHONPATH", ".")}
    worker = await asyncio.create_subprocess_exec(
        *command, env=env, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    await asyncio.sleep(REST_S)
    if worker.returncode is not None:
        raise RuntimeError(f"the worker ended with {worker.returncode}")
    memory_mb = rss_mb(worker.pid)
    worker.send_signal(signal.SIGTERM)
    await worker.wait()
    return {"jobs": 0, "rss_mb": memory_mb}


async def growth(count: int) -> Figures:
    """Memory after each fortieth of the jobs; the line through the second half, in MB per million jobs."""
    async with kernel_over() as kernel:
        connection = await asyncpg.connect(postgres_url())
        worker, stop = Worker(kernel, concurrency=CONCURRENCY), asyncio.Event()
        running = asyncio.ensure_future(worker.run(stop))
        part, points = count // PARTS, []
        for number in range(1, PARTS + 1):
            await fill(connection, part, kernel.now() - 90_000_000 + number * part, "queued", events=False)
            await connection.execute("SELECT pg_notify('holdfast', 'queue:bench')")
            while worker.completed < number * part and not running.done():  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.01)
            points.append((worker.completed / 1e6, rss_mb()))
        stop.set()
        await running
        await connection.close()
    late = points[PARTS // 2 :]
    line = slope([done for done, _ in late], [memory for _, memory in late])
    return {
        "jobs": count,
        "mb_per_million": line.rise,
        "error_mb": line.error,
        "first_mb": points[0][1],
        "last_mb": points[-1][1],
    }


TASKS = {"idle": idle, "growth": growth}

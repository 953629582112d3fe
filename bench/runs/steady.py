"""A steady stream of jobs, as a service has it: without a snapshot, behind one that is held, and after its release.

Each job is enqueued for itself, those of one moment share a commit, and one worker in the same process runs them.
Measured is how long they wait, second by second, and what a job costs the database.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median

from bench.runs.held import snapshot
from bench.runs.kernels import audited, kernel_over
from bench.stopwatch import Figures, database_cpu_s, latency, postgres_url
from holdfast import App, Client, Context, Job, stage
from holdfast.engines.run import Duties, run
from holdfast.kernel.kernel import Kernel

PER_S = 800
TICK_S = 0.01
WARM_S = 3
AFTER_S = 30
"""How long the stream goes on after the release."""
RECOVERED = 1.5
"""A second is as it was when its p99 is at most so many times that of the usual second before."""
app = App("steady")
begun_at: dict[int, float] = {}
waited: list[tuple[float, float]] = []


@app.job()
class Tick(Job[int]):
    @stage()
    async def run(self, ctx: Context, number: int) -> None:
        now = time.perf_counter()
        waited.append((now, (now - begun_at.pop(number)) * 1_000))


async def steady(seconds: int) -> Figures:
    async with kernel_over([app]) as kernel:
        async with _working(kernel) as client:
            await _stream(client, WARM_S)
            before, usual_ms = await _phase(client, seconds)
            async with snapshot(postgres_url()):
                behind, _ = await _phase(client, seconds)
            recovery_s = await _recovered(client, usual_ms)
        figures = {"jobs": before["jobs"] + behind["jobs"], "recovery_s": recovery_s}
        figures |= {f"before_{name}": value for name, value in before.items()}
        figures |= {f"held_{name}": value for name, value in behind.items()}
        figures["p99_ratio"] = behind["p99_ms"] / before["p99_ms"]
        figures["database_ratio"] = behind["database_us"] / before["database_us"]
        return await audited(kernel, figures)


@asynccontextmanager
async def _working(kernel: Kernel) -> AsyncIterator[Client]:
    """A process as `holdfast worker` starts it, sweeps and all."""
    stop = asyncio.Event()
    working = asyncio.ensure_future(run(kernel, Duties(), stop))
    yield Client(kernel)
    stop.set()
    await working


async def _phase(client: Client, seconds: int) -> tuple[Figures, float]:
    """The waits of a stream, what a job cost the database, and the p99 of its usual second."""
    cpu_s, began = database_cpu_s(), time.perf_counter()
    await _stream(client, seconds)
    figures = latency([wait for _, wait in waited])
    figures["per_s"] = figures["jobs"] / (time.perf_counter() - began)
    figures["database_us"] = (database_cpu_s() - cpu_s) / figures["jobs"] * 1e6
    return figures, median(_second_by_second(began))


async def _recovered(client: Client, usual_ms: float) -> float:
    began = time.perf_counter()
    await _stream(client, AFTER_S)
    calm = (second for second, p99 in enumerate(_second_by_second(began)) if p99 <= RECOVERED * usual_ms)
    return float(next(calm, AFTER_S))


def _second_by_second(began: float) -> list[float]:
    """The p99 of each second of the last stream."""
    seconds: dict[int, list[float]] = defaultdict(list)
    for at, wait in waited:
        seconds[int(at - began)].append(wait)
    return [latency(waits)["p99_ms"] for _, waits in sorted(seconds.items())]


async def _stream(client: Client, seconds: int) -> None:
    """So many jobs a second, however long an enqueue takes; ends when all of them have begun."""
    waited.clear()
    began, sent = time.perf_counter(), 0
    async with asyncio.TaskGroup() as group:
        while sent < seconds * PER_S:
            due = min(seconds * PER_S, int((time.perf_counter() - began) * PER_S))
            for number in range(sent, due):
                begun_at[number] = time.perf_counter()
                group.create_task(client.enqueue(Tick, number))
            sent = due
            await asyncio.sleep(TICK_S)
    while begun_at:  # noqa: ASYNC110 - what has begun has no event
        await asyncio.sleep(TICK_S)


TASKS = {"steady": steady}

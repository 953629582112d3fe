"""`holdfast bench`: an honest, quick figure for your own database, with advice where a setting limits it.

Empty jobs in a queue of their own, with every guarantee on; its rows are removed at the end.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass

from holdfast.engines.worker import Worker
from holdfast.errors import InvalidInput
from holdfast.kernel.app import App, Job, stage
from holdfast.kernel.context import Context
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.submit import SharedCommit, prepare, submit_orders
from holdfast.stores.seam import Store
from holdfast.tables import events, jobs

CALLERS = 32
CONCURRENCY = 300
PICKUPS = 50


@dataclass(frozen=True, slots=True)
class Figures:
    """What this database gives, from this process."""

    enqueue_per_s: float
    bulk_enqueue_per_s: float
    jobs_per_s: float
    pickup_p50_ms: float
    pickup_p99_ms: float

    def advice(self, dialect: str) -> list[str]:
        """Where the limit probably is, in sentences."""
        found = []
        if self.pickup_p50_ms > 50:
            found.append("Picking a job up takes two commits; slow ones mean a slow or distant disk.")
        if dialect == "sqlite" and self.jobs_per_s < 2_000:
            found.append("SQLite waits for the disk at every commit; PostgreSQL on a server's disk goes faster.")
        if dialect == "postgres" and self.jobs_per_s < 5_000:
            found.append(
                "Check synchronous_commit, the way to the server, and that worker and database have a core each."
            )
        return found or ["Nothing stands out: the figures are what this machine gives."]

    def as_dict(self) -> dict[str, float]:
        return {name: round(value, 1) for name, value in asdict(self).items()}


async def bench(store: Store, count: int = 5_000) -> Figures:
    """Measure enqueueing, running and picking up, then remove what was written."""
    if not 100 <= count <= 1_000_000:
        raise InvalidInput(f"The number of jobs is {count}; it must be between 100 and 1,000,000.")
    app, started = App("holdfast-bench"), asyncio.Queue[float]()
    kernel = Kernel(store, Registry([_declared(app, started)]))
    await kernel.migrate()
    try:
        single = await _singly(kernel, count // 5)
        bulk = await _in_bulk(kernel, count)
        running = await _running(kernel, count // 5 + count)
        waits = await _pickups(kernel, started)
        return Figures(single, bulk, running, waits[len(waits) // 2], waits[int(len(waits) * 0.99)])
    finally:
        await _clean(kernel)


def _declared(app: App, started: asyncio.Queue[float]) -> App:
    @app.job(name="holdfast-bench.noop")
    class Noop(Job[int]):
        @stage()
        async def run(self, ctx: Context, number: int) -> None:
            return None

    @app.job(name="holdfast-bench.stamp")
    class Stamp(Job[int]):
        @stage()
        async def run(self, ctx: Context, number: int) -> None:
            started.put_nowait(time.perf_counter())

    return app


def _class_of(kernel: Kernel, name: str) -> type[Job[int]]:
    return type(kernel.registry.kind(f"holdfast-bench.{name}").instance)


async def _singly(kernel: Kernel, count: int) -> float:
    shared, noop, left = SharedCommit(kernel), _class_of(kernel, "noop"), iter(range(count))

    async def caller() -> None:
        for number in left:
            await shared.submit(noop, number)

    began = time.perf_counter()
    await asyncio.gather(*[caller() for _ in range(CALLERS)])
    return count / (time.perf_counter() - began)


async def _in_bulk(kernel: Kernel, count: int) -> float:
    kind = kernel.registry.kind("holdfast-bench.noop")
    began = time.perf_counter()
    orders = [prepare(kind, number, job_id=kernel.new_id(), now=kernel.now()) for number in range(count)]
    await submit_orders(kernel, orders)
    return count / (time.perf_counter() - began)


async def _running(kernel: Kernel, count: int) -> float:
    began = time.perf_counter()
    await Worker(kernel, concurrency=CONCURRENCY).run_until_idle()
    return count / (time.perf_counter() - began)


async def _pickups(kernel: Kernel, started: asyncio.Queue[float]) -> list[float]:
    stop, shared, stamp = asyncio.Event(), SharedCommit(kernel), _class_of(kernel, "stamp")
    waits = []
    async with asyncio.TaskGroup() as group:
        group.create_task(Worker(kernel, concurrency=CONCURRENCY).run(stop))
        for number in range(PICKUPS + 1):
            began = time.perf_counter()
            await shared.submit(stamp, number)
            waits.append((await started.get() - began) * 1_000)
        stop.set()
    return sorted(waits[1:])  # the first one waited for the worker to come up


async def _clean(kernel: Kernel) -> None:
    while True:
        async with kernel.store.transaction() as tx:
            gone = await jobs.forget(tx, "holdfast-bench", 1_000)
            if not gone:
                return
            await events.forget(tx, gone)

"""`holdfast bench`: an honest, quick figure for your own database, with advice where a setting limits it.

Empty jobs in a queue of their own, with every guarantee on; its rows are removed at the end.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from holdfast.client import Client
from holdfast.engines.worker import Worker
from holdfast.errors import InvalidInput
from holdfast.kernel.app import App, Job, stage
from holdfast.kernel.context import Context
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.stores.seam import Store
from holdfast.stores.statement import load_statements
from holdfast.tables import events, jobs

CALLERS = 32
CONCURRENCY = 300
PICKUPS = 50
COMMITS = 20
TICK_S = 0.002
FAR_MS = 1.0
SLOW_COMMIT_MS = 5.0
BUSY_MS = 10.0

sql = load_statements(Path(__file__).with_suffix(".sql"))


@dataclass(frozen=True, slots=True)
class Figures:
    """What this database gives, from this process. `is_durable` is false where it may forget what it has accepted."""

    enqueue_per_s: float
    bulk_enqueue_per_s: float
    jobs_per_s: float
    pickup_p50_ms: float
    pickup_p99_ms: float
    commit_ms: float
    round_trip_ms: float
    is_durable: bool

    def advice(self, *, has_one_writer: bool) -> list[str]:
        """Where the limit probably is, in sentences."""
        found = []
        if not self.is_durable:
            found.append(
                "The database does not wait for its disk (fsync or synchronous_commit is off): these figures flatter, "
                "and a power failure may lose what was accepted."
            )
        if self.round_trip_ms > FAR_MS:
            found.append(
                f"A question takes {self.round_trip_ms:.1f} ms there and back: bring the worker nearer to the "
                "database, or raise WORKER_CONCURRENCY so that more is under way at once."
            )
        if self.commit_ms - self.round_trip_ms > SLOW_COMMIT_MS:
            found.append(
                f"A commit takes {self.commit_ms:.1f} ms: the disk is the limit for single enqueues and for pick-up. "
                "Enqueue in bulk or from many callers at once: they share commits."
            )
        if self.pickup_p50_ms > 4 * self.commit_ms + BUSY_MS:
            found.append("Picking up takes longer than its two commits: this process or the database lacks CPU.")
        if has_one_writer:
            found.append("SQLite has one writer: more worker processes add nothing; PostgreSQL takes several.")
        return found or ["Nothing stands out: the figures are what this machine gives."]

    def as_dict(self) -> dict[str, float]:
        """The figures alone, for people and scripts; what `is_durable` means stands in the advice."""
        return {name: round(value, 2) for name, value in asdict(self).items() if name != "is_durable"}


async def bench(store: Store, count: int = 5_000) -> Figures:
    """Measure enqueueing, running and picking up, then remove what was written."""
    if not 100 <= count <= 1_000_000:
        raise InvalidInput(f"The number of jobs is {count}; it must be between 100 and 1,000,000.")
    app, started = App("holdfast-bench"), asyncio.Queue[float]()
    kernel = Kernel(store, Registry([_declared(app, started)]))
    await kernel.migrate()
    try:
        commit_ms = await _commit_ms(kernel)
        single = await _singly(kernel, count // 5)
        bulk = await _in_bulk(kernel, count)
        running = await _running(kernel, COMMITS + count // 5 + count)
        waits = await _pickups(kernel, started)
        return Figures(
            enqueue_per_s=single,
            bulk_enqueue_per_s=bulk,
            jobs_per_s=running,
            pickup_p50_ms=waits[len(waits) // 2],
            pickup_p99_ms=waits[int(len(waits) * 0.99)],
            commit_ms=commit_ms,
            round_trip_ms=await _round_trip_ms(kernel),
            is_durable=await _is_durable(kernel),
        )
    finally:
        await _clean(kernel)


async def _commit_ms(kernel: Kernel) -> float:
    """One caller, one job at a time: what a durable write costs."""
    client, noop, times = Client(kernel), _class_of(kernel, "noop"), []
    for number in range(COMMITS):
        began = time.perf_counter()
        await client.enqueue(noop, number)
        times.append((time.perf_counter() - began) * 1_000)
    return statistics.median(times)


async def _round_trip_ms(kernel: Kernel) -> float:
    times = []
    async with kernel.store.reading() as tx:
        for _ in range(COMMITS):
            began = time.perf_counter()
            await tx.rows(sql.ping)
            times.append((time.perf_counter() - began) * 1_000)
    return statistics.median(times)


async def _is_durable(kernel: Kernel) -> bool:
    async with kernel.store.reading() as tx:
        (row,) = await tx.rows(sql.durability)
    return "off" not in (row["fsync"], row["synchronous_commit"])


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
    client, noop, left = Client(kernel), _class_of(kernel, "noop"), iter(range(count))

    async def caller() -> None:
        for number in left:
            await client.enqueue(noop, number)

    began = time.perf_counter()
    await asyncio.gather(*[caller() for _ in range(CALLERS)])
    return count / (time.perf_counter() - began)


async def _in_bulk(kernel: Kernel, count: int) -> float:
    began = time.perf_counter()
    await Client(kernel).enqueue_many(_class_of(kernel, "noop"), range(count))
    return count / (time.perf_counter() - began)


async def _running(kernel: Kernel, count: int) -> float:
    """The worker as it really runs, until all of them are settled."""
    worker, stop = Worker(kernel, concurrency=CONCURRENCY), asyncio.Event()
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run(stop))
        while worker.completed < count:  # noqa: ASYNC110 - what is settled has no event of its own
            await asyncio.sleep(TICK_S)
        taken_s = time.perf_counter() - began
        stop.set()
    return count / taken_s


async def _pickups(kernel: Kernel, started: asyncio.Queue[float]) -> list[float]:
    stop, client, stamp = asyncio.Event(), Client(kernel), _class_of(kernel, "stamp")
    waits = []
    async with asyncio.TaskGroup() as group:
        group.create_task(Worker(kernel, concurrency=CONCURRENCY).run(stop))
        for number in range(PICKUPS + 1):
            began = time.perf_counter()
            await client.enqueue(stamp, number)
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

"""What idle company costs: a job wakes one worker of many, and one of them sweeps for all.

Twenty workers with stores of their own, each with its pool and its listener, its relay and its sweeps, as
twenty processes have them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import pytest

from holdfast import App, Context, Job, stage
from holdfast.engines.run import Duties, prepare, run
from holdfast.engines.wakeups import LOOK_ROUND_S, SECOND_LOOK_S
from holdfast.kernel.kernel import Kernel, Registry, Tuning
from holdfast.kernel.submit import submit
from holdfast.stores.postgres import PostgresStore, PostgresTx
from holdfast.stores.seam import Row, Store
from holdfast.stores.statement import Statement, statement_of
from holdfast.tables import jobs, outbox, workers
from holdfast.transports.memory import MemoryTransport
from tests.acceptance.process import until

pytestmark = pytest.mark.slow

WORKERS = 20
IDLE_S = 4.0
JOBS = 30
RINGS = 10


@dataclass
class Count:
    transactions: int = 0
    statements: Counter[str] = field(default_factory=Counter)
    ended: int = 0
    picked_up_ms: list[float] = field(default_factory=list)

    def clear(self) -> None:
        self.transactions, self.ended = 0, 0
        self.statements.clear()
        self.picked_up_ms.clear()

    async def all_ended(self) -> bool:
        return self.ended == JOBS


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Count:
    """Every statement that the stores send, by its name."""
    counted = Count()
    rows = PostgresTx.rows

    async def counting(tx: PostgresTx, statement: Statement, **params: Any) -> Any:
        is_claim = statement is jobs.sql.turn and params["limit"] > 0
        is_relay = statement in (outbox.sql.first_pending, outbox.sql.claim)
        counted.statements["claim" if is_claim else "relay" if is_relay else statement.name] += 1
        found: list[Row] = list(await rows(tx, statement, **params))
        return found

    acquired = PostgresStore._acquired

    def borrowing(store: PostgresStore, *plans: Any, **more: Any) -> Any:
        counted.transactions += 1
        return acquired(store, *plans, **more)

    look_after = PostgresStore._look_after

    async def looking(store: PostgresStore, connection: Any) -> float:
        counted.transactions += 1
        return await look_after(store, connection)

    monkeypatch.setattr(PostgresTx, "rows", counting)
    monkeypatch.setattr(PostgresStore, "_acquired", borrowing)
    monkeypatch.setattr(PostgresStore, "_look_after", looking)
    return counted


def quick(counted: Count) -> App:
    app = App("quick")

    @app.job()
    class Brief(Job[dict[str, float]]):
        @stage()
        async def work(self, ctx: Context, sent: dict[str, float]) -> None:
            counted.picked_up_ms.append(1_000 * (asyncio.get_running_loop().time() - sent["at"]))
            counted.ended += 1

    return app


@asynccontextmanager
async def fleet(
    url: str, app: App, size: int, *, tuning: Tuning | None = None, concurrency: int = 50
) -> AsyncIterator[list[Kernel]]:
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        kernels = [
            Kernel(PostgresStore(url), Registry([app]), MemoryTransport(), tuning=tuning or Tuning())
            for _ in range(size)
        ]
        for kernel in kernels:
            stack.push_async_callback(kernel.store.close)
        await prepare(kernels[0])
        async with asyncio.TaskGroup() as group:
            for kernel in kernels:
                group.create_task(run(kernel, Duties(grace_s=1.0, concurrency=concurrency), stop))
            try:
                yield kernels
            finally:
                stop.set()


async def settled(kernels: list[Kernel]) -> bool:
    """Every worker has said that it hears, and has had the time to look who else does."""
    async with kernels[0].store.reading() as tx:
        queues, declared = ",".join(kernels[0].registry.queues), kernels[0].registry.declared
        return len(await workers.company(tx, queues, declared, 0)) == len(kernels)


@pytest.mark.spec("K28", "K19")
async def test_a_job_costs_the_same_in_idle_company_and_idleness_costs_little(postgres_url: str, count: Count) -> None:
    tuning = Tuning(relay_poll_s=2.0)  # so that all have polled alone for the last time when the count begins
    async with fleet(postgres_url, quick(count), WORKERS, tuning=tuning) as kernels:
        await until(lambda: settled(kernels), "all workers to hear", 60)
        await asyncio.sleep(1.5 * LOOK_ROUND_S)  # what is measured is time that passes
        count.clear()
        await asyncio.sleep(IDLE_S)
        idle_s = count.transactions / IDLE_S
        assert idle_s <= 8, count
        assert count.statements["relay"] / IDLE_S <= 2, "every relay polls for itself"
        count.clear()
        began = asyncio.get_running_loop().time()
        brief = type(kernels[0].registry.kinds["quick.brief"].instance)
        for _ in range(JOBS):
            await submit(kernels[0], brief, {"at": asyncio.get_running_loop().time()})
            await asyncio.sleep(0.08)
        await until(count.all_ended, "the jobs to end", 10)
        took_s = asyncio.get_running_loop().time() - began  # what the clock asks for meanwhile is not the jobs' doing
        assert (count.statements["claim"] - took_s / tuning.poll_s) / JOBS <= 3, count
        assert (count.transactions - took_s * idle_s) / JOBS <= 6, count
        assert median(count.picked_up_ms) < 500, "a ring woke nobody: the poll found it"
        assert await listening(kernels[0].store) == WORKERS, "one connection a process listens"
        count.clear()
        for _ in range(RINGS):
            async with kernels[0].store.transaction() as tx:
                await tx.notify("outbox")
            await asyncio.sleep(0.1)
        await asyncio.sleep(2 * SECOND_LOOK_S)
        assert RINGS <= count.statements["relay"] <= 4 * RINGS, "a message is looked for by two relays, and by polls"


@pytest.mark.spec("K28")
async def test_a_ring_that_a_full_worker_cannot_answer_wakes_the_others(postgres_url: str) -> None:
    """Two workers of one place each: whoever is asked, both jobs run at once, and long before a poll."""
    started, go_on = asyncio.Queue[int](), asyncio.Event()
    app = App("slow")

    @app.job()
    class Long(Job[int]):
        @stage(timeout_s=60)
        async def work(self, ctx: Context, number: int) -> None:
            started.put_nowait(number)
            await go_on.wait()

    tuning = Tuning(poll_s=30)
    async with fleet(postgres_url, app, 2, tuning=tuning, concurrency=1) as kernels:
        await until(lambda: settled(kernels), "both workers to hear", 30)
        await asyncio.sleep(1.5 * LOOK_ROUND_S)
        async with asyncio.timeout(20):
            for number in range(2):
                await submit(kernels[0], Long, number)
            assert {await started.get(), await started.get()} == {0, 1}
        go_on.set()


async def listening(store: Store) -> int:
    asked = "SELECT COUNT(*) AS number FROM pg_stat_activity WHERE application_name = 'holdfast listen' AND datname = "
    async with store.reading() as tx:
        (row,) = await tx.rows(statement_of(asked + "current_database()"))
    return int(row["number"])

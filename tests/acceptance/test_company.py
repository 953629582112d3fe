"""What idle company costs: a job wakes one worker of many, and one of them sweeps for all.

Twenty workers with stores of their own, each with its pool and its listener, as twenty processes have them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from holdfast import App, Context, Job, stage
from holdfast.engines.run import Duties, prepare, run
from holdfast.engines.wakeups import LOOK_ROUND_S
from holdfast.kernel.kernel import Kernel, Registry, Tuning
from holdfast.kernel.submit import submit
from holdfast.stores.postgres import PostgresStore, PostgresTx
from holdfast.stores.seam import Row
from holdfast.stores.statement import Statement
from tests.acceptance.process import until

pytestmark = pytest.mark.slow

WORKERS = 20
IDLE_S = 4.0
JOBS = 30


@dataclass
class Count:
    transactions: int = 0
    statements: Counter[str] = field(default_factory=Counter)
    ended: int = 0
    picked_up_ms: list[float] = field(default_factory=list)


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Count:
    """Every statement that the stores send, by its name."""
    counted = Count()
    rows = PostgresTx.rows

    async def counting(tx: PostgresTx, statement: Statement, **params: Any) -> Any:
        name = "claim" if statement.name == "turn" and params["limit"] > 0 else statement.name
        counted.statements[name] += 1
        found: list[Row] = list(await rows(tx, statement, **params))
        return found

    acquired = PostgresStore._acquired

    def borrowing(store: PostgresStore) -> Any:
        counted.transactions += 1
        return acquired(store)

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
async def fleet(url: str, app: App, size: int) -> AsyncIterator[list[Kernel]]:
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        kernels = [Kernel(PostgresStore(url), Registry([app]), tuning=Tuning()) for _ in range(size)]
        for kernel in kernels:
            stack.push_async_callback(kernel.store.close)
        await prepare(kernels[0])
        async with asyncio.TaskGroup() as group:
            for kernel in kernels:
                group.create_task(run(kernel, Duties(grace_s=1.0), stop))
            try:
                yield kernels
            finally:
                stop.set()


async def all_count_on_each_other(url: str, size: int) -> bool:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        cursor = await connection.execute("SELECT count(*) FROM holdfast_workers WHERE heeds = 1")
        return (await cursor.fetchone()) == (size,)


@pytest.mark.spec("K28")
async def test_a_job_costs_the_same_in_idle_company_and_idleness_costs_little(postgres_url: str, count: Count) -> None:
    async with fleet(postgres_url, quick(count), WORKERS) as kernels:
        await until(lambda: all_count_on_each_other(postgres_url, WORKERS), "all workers to hear", 30)
        await asyncio.sleep(1.5 * LOOK_ROUND_S)
        count.transactions = 0
        count.statements.clear()
        await asyncio.sleep(IDLE_S)
        print("idle", count.transactions / IDLE_S, count.statements)
        count.transactions = 0
        count.statements.clear()
        brief = type(kernels[0].registry.kinds["quick.brief"].instance)
        for _ in range(JOBS):
            await submit(kernels[0], brief, {"at": asyncio.get_running_loop().time()})
            await asyncio.sleep(0.08)
        await until(lambda: all_ended(count), "jobs", 10)
        print("per job", count.statements["claim"] / JOBS, count.transactions / JOBS, count.statements)
        print(sorted(round(ms) for ms in count.picked_up_ms))


async def all_ended(count: Count) -> bool:
    return count.ended == JOBS

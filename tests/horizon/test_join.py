"""Waking the parent of 100,000 children costs no more than of ten: buffers of every statement, from EXPLAIN."""

from __future__ import annotations

import psycopg
import pytest

from holdfast import App, Context, Job, stage
from holdfast.engines.worker import Worker
from holdfast.kernel.compose.wake import wake_once
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.submit import submit
from holdfast.tables import jobs
from holdfast.testing import HandClock
from tests.horizon.explaining import ExplainingStore

FEW, MANY = 10, 100_000
A_FEW = 60  # an index of a hundred thousand rows is a page or two deeper, and a turn goes down a dozen
"""Buffers that a statement may touch more: another level of an index for each that it looks into."""
WAKES = {"joins.count_down", "joins.ready", "joins.move", "jobs.lock_waiting", "jobs.turn"}
MORE_CHILDREN = b"""
INSERT INTO holdfast_jobs (id, kind, queue, stage, priority, state, run_at, is_due, created_at, updated_at, finished_at,
                           payload, join_id)
SELECT CAST(lpad(to_hex(n), 12, '0') || '70008000000000000000' AS uuid), 'joins.child', 'joins', 'run', 2, 'succeeded',
       1, 1, 1, 1, 1, '1', (SELECT id FROM holdfast_joins)
  FROM generate_series(1, %s) AS n"""
app = App("joins")


@app.job()
class Child(Job[int, int]):
    @stage()
    async def run(self, ctx: Context, number: int) -> int:
        return number


@app.job()
class Parent(Job[int, int]):
    @stage()
    async def run(self, ctx: Context, number: int) -> int:
        return len(await ctx.gather(Child, range(FEW), delay_s=3_600))


async def wake_costs(url: str, children: int) -> dict[str, int]:
    """What each statement costs at the most, while the last ten children end and their parent is woken."""
    clock = HandClock()
    store = ExplainingStore(url, clock=clock)
    kernel = Kernel(store, Registry([app]))
    await kernel.migrate()
    parent = await submit(kernel, Parent, 0)
    await Worker(kernel).run_until_idle()
    with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
        connection.execute(MORE_CHILDREN, [children - FEW])
        connection.execute("UPDATE holdfast_joins SET size = %s", [children])
        connection.execute("VACUUM (ANALYZE) holdfast_jobs")
    clock.advance(3_601)
    store.forget()
    await Worker(kernel).run_until_idle()
    assert await wake_once(kernel) == 1 and await wake_once(kernel) == 0, "woken, once"
    async with store.reading() as tx:
        row = await jobs.show(tx, parent)
    await store.close()
    assert row is not None and row.state == "queued"
    return dict(store.buffers)


@pytest.mark.slow
@pytest.mark.spec("K24")
async def test_a_hundred_thousand_children_wake_their_parent_as_cheaply_as_ten(postgres_url: str) -> None:
    few = await wake_costs(postgres_url, FEW)
    with psycopg.connect(postgres_url.partition("?")[0], autocommit=True) as connection:
        connection.execute("TRUNCATE holdfast_jobs, holdfast_joins, holdfast_results")
    many = await wake_costs(postgres_url, MANY)
    assert WAKES - set(many) == set(), "never run here"
    assert {name: (few[name], many[name]) for name in few if many[name] > few[name] + A_FEW} == {}

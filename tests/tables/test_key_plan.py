"""A job is found by its key through the index of keys, also by a plan that does not know which range is asked for."""

from __future__ import annotations

import asyncpg
import pytest

from holdfast.core.job import JobOrder
from holdfast.stores.postgres import PostgresStore
from holdfast.tables import search
from holdfast.tables.schema import KERNEL

KEYED = """INSERT INTO holdfast_jobs (id, kind, queue, stage, state, priority, run_at, is_due, created_at, updated_at,
  finished_at, job_key, payload)
SELECT gen_random_uuid(), 'k' || n % 2, 'q', 's', 'succeeded', 2, 0, 0, 0, 0, 0, 'key-' || n, '1'
  FROM generate_series(1, 2000) AS n"""


@pytest.mark.slow
@pytest.mark.spec("K21")
@pytest.mark.parametrize("order", [JobOrder.NEWEST, JobOrder.OLDEST])
async def test_a_key_is_looked_up_and_no_range_of_jobs_is_walked(postgres_url: str, order: JobOrder) -> None:
    store = PostgresStore(postgres_url)
    await store.migrate(KERNEL)
    await store.close()
    statement = search.sql.choose(search.sql.jobs_matching, {"any", "key", order})
    given = {"from_id": search.LOWEST, "to_id": search.HIGHEST, "key": "key-7"}
    values = ", ".join(f"'{given[name]}'" if name in given else "50" for name in statement.order)
    connection = await asyncpg.connect(postgres_url)
    try:
        await connection.execute(f"{KEYED}; ANALYZE holdfast_jobs; SET plan_cache_mode = force_generic_plan")
        await connection.execute(f"PREPARE look AS {statement.postgres}")
        plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN EXECUTE look({values})"))
    finally:
        await connection.close()
    assert "Index Scan using holdfast_jobs_key on holdfast_jobs j" in plan, plan
    assert "holdfast_jobs_pkey" not in plan

"""Lists and queries over a million jobs against the same over a thousand, by CPU: the console's own, and the API's."""

from __future__ import annotations

import time
from typing import Any

import asyncpg

from bench.runs.filling import settle_down
from bench.runs.kernels import app, kernel_over
from bench.stopwatch import Figures, database_cpu_s, postgres_url
from holdfast.kernel.kernel import Kernel
from holdfast.operator.desk import Desk
from holdfast.operator.jobs import list_jobs, query_jobs
from holdfast.operator.page import ListPage
from holdfast.system import OpenSystem, System

FEW, TIMES, PART = 1_000, 20, 100_000
# One in a thousand is dead, one in five hundred is queued; a thousand owners; an order's number in every input.
# What is queued has a deadline, what is dead has failed up to seven times.
JOBS = """INSERT INTO holdfast_jobs (id, kind, queue, stage, state, provider, priority, attempt, run_at, is_due,
  created_at, updated_at, started_at, last_attempt_at, finished_at, deadline_at, failures,
  owner, job_key, error, payload)
SELECT CAST(lpad(to_hex($2 + n), 12, '0') || '7' || substr(md5(CAST(n AS text)), 1, 3) || '8'
            || substr(md5(CAST(n AS text)), 4, 15) AS uuid),
       'bench.Noop', 'bench', 'run',
       CASE WHEN n % 1000 = 0 THEN 'dead' WHEN n % 500 = 1 THEN 'queued' ELSE 'succeeded' END,
       'remote', 2, 1, $2 + n + CASE WHEN n % 500 = 1 THEN 864000000 ELSE 0 END, 0, $2 + n, $2 + n, $2 + n, $2 + n,
       CASE WHEN n % 500 = 1 THEN NULL ELSE $2 + n END, CASE WHEN n % 500 = 1 THEN $2 + n + 1728000000 END,
       CASE WHEN n % 1000 = 0 THEN 1 + n % 7 ELSE 0 END, 'owner-' || n % 1000, 'order-' || ($2 + n),
       CASE WHEN n % 1000 = 0 THEN '{"error_class":"UPSTREAM_422","message":"refused"}' END,
       '{"n":' || n || ',"text":"essay number ' || n || '"}'
  FROM generate_series(CAST(1 AS bigint), CAST($1 AS bigint)) AS n"""
LOOKS = {
    "list": "",
    "state": "state:dead",
    "owner": "owner:owner-7",
    "key": "key:order-{newest}",
    "nobody": "owner:nobody",
    "error": "error:UPSTREAM_422",
    "id": "order-{newest}",
    "range": "kind:bench.Noop since:1h",
    "oldest": "sort:oldest",
    "deadline": "sort:deadline",
    "failures": "sort:failures",
    "due": "state:queued owner:owner-1 sort:deadline",
    "died": "state:dead kind:bench.Noop sort:failures",
    "field": "input.n:399",
    "text": '"essay number 399"',
}
"""What a person asks for; the last two look into inputs, of which the newest are searched."""


async def querying(count: int) -> Figures:
    """The CPU of each look, the process's and the database's, over `count` jobs and over a thousand."""
    full = f"{postgres_url()}_full"
    name = full.rpartition("/")[2]
    connection = await asyncpg.connect(postgres_url())
    await connection.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
    async with kernel_over() as small, kernel_over(url=full) as large:
        few = await _measure(small, postgres_url(), FEW)
        many = await _measure(large, full, count)
    await connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    await connection.close()
    found = {f"few_{look}_ms": taken for look, taken in few.items()}
    found |= {f"{look}_ms": taken for look, taken in many.items()}
    return {"jobs": count, "worst_ms": max(many.values()), "list_ratio": many["list"] / few["list"], **found}


async def _measure(kernel: Kernel, url: str, count: int) -> dict[str, float]:
    oldest = kernel.now() - count
    await _fill(url, count, oldest)
    desk = Desk([OpenSystem(System("bench", "bench", "X", lambda env: app), kernel, {})])
    return {name: await _cpu_ms(desk, query.format(newest=oldest + count - 1)) for name, query in LOOKS.items()}


async def _fill(url: str, count: int, oldest: int) -> None:
    connection: Any = await asyncpg.connect(url)
    for start in range(0, count, PART):
        text = JOBS.replace("$1", str(min(PART, count - start))).replace("$2", str(oldest + start))
        await connection.execute(text)
    await settle_down(connection)
    await connection.close()


async def _cpu_ms(desk: Desk, query: str) -> float:
    """Of one look, the mean of many: the database's account has ticks of ten milliseconds."""
    page = ListPage(50)
    began = time.process_time() + database_cpu_s()
    for _ in range(TIMES):
        await (query_jobs(desk, page, query) if query else list_jobs(desk, page, {}))
    return (time.process_time() + database_cpu_s() - began) * 1_000 / TIMES


TASKS = {"querying": querying}

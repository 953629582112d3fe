"""Fills Holdfast's tables by the hundred thousand, in SQL, with rows such as the kernel leaves."""

from __future__ import annotations

from typing import Any
from uuid import UUID

# Ids sort by time, as the kernel's do. $1 how many, $2 the oldest one's time, $3 the state, $4 priorities in use.
JOBS = """INSERT INTO holdfast_jobs (id, kind, queue, stage, state, parked, hold, provider, priority, attempt, run_at,
  is_due, created_at, updated_at, started_at, last_attempt_at, finished_at, payload)
SELECT CAST(lpad(to_hex($2 + n), 12, '0') || '7' || substr(md5(CAST(n AS text)), 1, 3) || '8'
            || substr(md5(CAST(n AS text)), 4, 15) AS uuid),
       'bench.Noop', 'bench', 'run', CASE $3 WHEN 'finished' THEN 'succeeded' ELSE 'queued' END,
       CASE $3 WHEN 'held' THEN 1 ELSE 0 END, CASE $3 WHEN 'held' THEN 'breaker' END,
       CASE $3 WHEN 'held' THEN 'remote' END, CASE $4 WHEN 1 THEN 2 ELSE n % $4 END,
       CASE $3 WHEN 'finished' THEN 1 ELSE 0 END, CASE $3 WHEN 'future' THEN $2 + n + 864000000 ELSE $2 + n END,
       CASE $3 WHEN 'future' THEN 0 ELSE 1 END, $2 + n, $2 + n,
       CASE $3 WHEN 'finished' THEN $2 + n END, CASE $3 WHEN 'finished' THEN $2 + n END,
       CASE $3 WHEN 'finished' THEN $2 + n END, '{"n":1}'
  FROM generate_series(CAST(1 AS bigint), CAST($1 AS bigint)) AS n"""
# Of a turn of two hundred, one claim and one success are written; the other jobs' rows show theirs.
EVENTS = """INSERT INTO holdfast_job_events (job_id, attempt, type, at, data)
SELECT id, 1, t, created_at, CASE t WHEN 'succeeded' THEN '199' END
  FROM holdfast_jobs CROSS JOIN unnest(ARRAY['claimed', 'succeeded']) AS t
 WHERE state = 'succeeded' AND created_at % 200 = 0 AND id BETWEEN $1 AND $2"""
PART = 100_000


async def fill(connection: Any, count: int, at: int, state: str, priorities: int = 1, *, events: bool = True) -> None:
    """`count` jobs in one state, the oldest made at `at`, a millisecond apart."""
    for start in range(0, count, PART):
        size, since = min(PART, count - start), at + start
        text = JOBS.replace("$1", str(size)).replace("$2", str(since)).replace("$3", f"'{state}'")
        await connection.execute(text.replace("$4", str(priorities)))
        if events and state == "finished":
            await connection.execute(EVENTS, _first_id(since + 1), _first_id(since + size + 1))


def _first_id(at: int) -> UUID:
    return UUID(f"{at:012x}{'0' * 20}")


async def settle_down(connection: Any) -> None:
    """Leave the tables as autovacuum would find them after a while."""
    for table in ("holdfast_jobs", "holdfast_job_events"):
        await connection.execute(f"VACUUM ANALYZE {table}")
    await connection.execute("CHECKPOINT")

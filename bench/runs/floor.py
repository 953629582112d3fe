"""The floor: the same work with nothing but a driver, and without a promise. What the guarantees cost is the gap."""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module
from uuid import UUID

import asyncpg

from bench.runs.kernels import kernel_over, orders
from bench.stopwatch import Figures, Stopwatch, postgres_url, tell

CLAIM = 50
ROWS = 10_000
SCHEMA = """CREATE TABLE work (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, state text NOT NULL, payload text);
CREATE INDEX work_ready ON work (id) WHERE state = 'queued'"""
TAKE = """UPDATE work SET state = 'processing' WHERE id IN (
  SELECT id FROM work WHERE state = 'queued' ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED) RETURNING id, payload"""
FINISH = "UPDATE work SET state = 'done' WHERE id = ANY($1)"
JOBS = (
    "id kind queue stage provider priority run_at created_at updated_at deadline_at job_key fingerprint owner trace "
    "payload"
)


async def noop(count: int) -> Figures:
    """A bare loop: claim 50, await an empty handler for each, complete the 50 in one statement."""
    connection = await asyncpg.connect(postgres_url())
    await connection.execute(SCHEMA)
    await connection.execute(
        "INSERT INTO work (state, payload) SELECT 'queued', '{}' FROM generate_series(1, $1)", count
    )
    watch = Stopwatch()
    while taken := await connection.fetch(TAKE, CLAIM):
        for row in taken:
            await _handler(json.loads(row["payload"]))
        await connection.execute(FINISH, [row["id"] for row in taken])
    return watch.stop(count)


async def _handler(payload: object) -> None:
    return None


async def copy(count: int) -> Figures:
    """COPY of finished rows into Holdfast's own table, ten thousand to a commit; the rows are made beforehand."""
    async with kernel_over() as kernel:
        now = kernel.now()
        made = [(UUID(order.id), order.row) for order in orders(kernel, count)]
        jobs = [_record(identity, row, now) for identity, row in made]
        connection = await asyncpg.connect(postgres_url())
        watch = Stopwatch()
        for start in range(0, count, ROWS):
            async with connection.transaction():
                await connection.copy_records_to_table(
                    "holdfast_jobs", records=jobs[start : start + ROWS], columns=JOBS.split()
                )
        return watch.stop(count)


def _record(identity: UUID, row: object, now: int) -> tuple[object, ...]:
    given = {"id": identity, "created_at": now, "updated_at": now}
    return tuple(given[name] if name in given else getattr(row, name) for name in JOBS.split())


TASKS = {"noop": noop, "copy": copy}
PLACES = {
    "threads": "aside_floor",
    "threads_block": "aside_floor",
    "processes": "aside_floor",
    "embedded": "embedded_floor",
    "publish": "publishing",
    "post_bare": "posting",
}


def main(task: str, count: int) -> None:
    if task == "settings":
        print(f"asyncpg alone: claims of {CLAIM} and grouped completion on one connection; COPY in commits of {ROWS}")
    else:
        tasks = import_module(f"bench.runs.{PLACES[task]}").TASKS if task in PLACES else TASKS
        tell(asyncio.run(tasks[task](count)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

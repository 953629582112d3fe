"""Procrastinate's side of the bench: psycopg's async pool, a concurrency of 30 async jobs, notified as it ships."""

from __future__ import annotations

import asyncio
import sys

import procrastinate

from bench.stopwatch import Figures, Stopwatch, postgres_url, tell

CONCURRENCY = 30
SETTINGS = f"PsycopgConnector with a pool of {CONCURRENCY}, async tasks, concurrency {CONCURRENCY}, wait=False"


async def noop(count: int) -> Figures:
    app = procrastinate.App(
        connector=procrastinate.PsycopgConnector(conninfo=postgres_url(), min_size=4, max_size=CONCURRENCY)
    )

    @app.task(name="noop")
    async def run(n: int) -> None:
        return None

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await run.batch_defer_async(*[{"n": n} for n in range(count)])
        watch = Stopwatch()
        await app.run_worker_async(concurrency=CONCURRENCY, wait=False, install_signal_handlers=False)
        return watch.stop(count)


if __name__ == "__main__":
    if sys.argv[1] == "settings":
        print(SETTINGS)
    else:
        tell(asyncio.run({"noop": noop}[sys.argv[1]](int(sys.argv[2]))))

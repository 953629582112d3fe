"""awa's side of the bench: its queue storage as it ships, jobs by COPY, many workers on one queue."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

from awa import AsyncClient

from bench.stopwatch import Figures, Stopwatch, postgres_url, tell

WORKERS = 256
ROWS = 5_000
POLL_MS = 50
SETTINGS = (
    f"AsyncClient with {WORKERS} workers on one queue, polling every {POLL_MS} ms, jobs by enqueue_many_copy in lists "
    f"of {ROWS}, every other setting as shipped"
)


@dataclass
class Noop:
    n: int


async def noop(count: int) -> Figures:
    """Empty jobs, one worker process, until the last handler has run."""
    client = AsyncClient(postgres_url())
    await client.migrate()
    await client.install_queue_storage()
    for start in range(0, count, ROWS):
        jobs = [Noop(n) for n in range(start, min(start + ROWS, count))]
        await client.enqueue_many_copy(jobs, queue="bench")
    left, done = count, asyncio.Event()

    @client.task(Noop, queue="bench")
    async def run(job: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    watch = Stopwatch()
    await client.start([("bench", WORKERS)], poll_interval_ms=POLL_MS)
    await done.wait()
    figures = watch.stop(count)
    await client.shutdown()
    await client.close()
    return figures


TASKS = {"noop": noop}


if __name__ == "__main__":
    if sys.argv[1] == "settings":
        print(SETTINGS)
    else:
        tell(asyncio.run(TASKS[sys.argv[1]](int(sys.argv[2]))))

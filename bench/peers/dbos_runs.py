"""DBOS's side of the bench: workflows on a queue, enqueued before the clock starts, run by one process."""

from __future__ import annotations

import asyncio
import sys

from dbos import DBOS, DBOSClient, DBOSConfig, EnqueueOptions

from bench.stopwatch import Figures, Stopwatch, postgres_url, tell

QUEUE = "bench"
CONCURRENCY = 100
POLL_S = 0.01
POOL = 40
SETTINGS = (
    f"async workflows on a queue, worker_concurrency {CONCURRENCY}, polling every {POLL_S} s, "
    f"a system database pool of {POOL}, console log level ERROR"
)
waiting = 0


@DBOS.step()
async def step(number: int) -> str:
    return f"sent {number}"


@DBOS.workflow()
async def noop(number: int) -> None:
    done()


@DBOS.workflow()
async def three(number: int) -> str:
    first = await step(number)
    second = await step(number)
    third = await step(number)
    done()
    return first + second + third


def done() -> None:
    global waiting
    waiting -= 1


async def drained(name: str, count: int) -> Figures:
    """From the queue's registration, which lets the worker begin, until the last workflow's result is stored."""
    global waiting
    url = postgres_url()
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": url,
        "sys_db_pool_size": POOL,
        "console_log_level": "ERROR",
        "application_version": "1",
    }
    DBOS(config=config)
    DBOS.launch()
    client = DBOSClient(system_database_url=url)
    options: EnqueueOptions = {"queue_name": QUEUE, "workflow_name": name, "app_version": "1"}
    handles = [client.enqueue(options, n) for n in range(count)]
    waiting = count
    watch = Stopwatch()
    await DBOS.register_queue_async(QUEUE, worker_concurrency=CONCURRENCY, polling_interval_sec=POLL_S)
    while waiting > 0:  # noqa: ASYNC110 - workflows run in DBOS's own loop
        await asyncio.sleep(0.005)
    await asyncio.to_thread(lambda: [handle.get_result(polling_interval_sec=0.01) for handle in handles[-CONCURRENCY:]])
    figures = watch.stop(count)
    DBOS.destroy()
    return figures


if __name__ == "__main__":
    if sys.argv[1] == "settings":
        print(SETTINGS)
    else:
        tell(asyncio.run(drained(sys.argv[1], int(sys.argv[2]))))

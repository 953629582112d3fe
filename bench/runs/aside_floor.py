"""The floor of stages that block: the same loop as without them, each job handed to an executor of Python's own."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor

import asyncpg

from bench.runs.floor import CLAIM, FINISH, SCHEMA, TAKE
from bench.stopwatch import Figures, Stopwatch, postgres_url, tree_cpu_s

CALLS_AT_ONCE = 50
"""Attempts and threads at once, on both sides: what a worker has as shipped."""
WARM = 50
BLOCK_S = 0.01
STEPS = 200_000


def nothing(number: int) -> None:
    return None


def block(number: int) -> None:
    """A call of a client that blocks: it lets go of the interpreter's lock."""
    time.sleep(BLOCK_S)


def compute(number: int) -> int:
    """Ten milliseconds and more of Python that keep the interpreter's lock."""
    for _ in range(STEPS):
        number = (number * 1_103_515_245 + 12_345) & 0x7FFFFFFF
    return number


async def _run(executor: Executor, function: Callable[[int], object], count: int) -> Figures:
    """Claim as many as may run at once, run each in the executor, complete them in one statement."""
    connection, loop = await asyncpg.connect(postgres_url()), asyncio.get_running_loop()
    await connection.execute(SCHEMA)
    await connection.execute(
        "INSERT INTO work (state, payload) SELECT 'queued', n FROM generate_series(1, $1) n", count
    )
    with executor:
        await asyncio.gather(*[loop.run_in_executor(executor, function, n) for n in range(WARM)])
        watch, cpu_s = Stopwatch(), tree_cpu_s(os.getpid())
        while taken := await connection.fetch(TAKE, CLAIM):
            await asyncio.gather(
                *[loop.run_in_executor(executor, function, json.loads(row["payload"])) for row in taken]
            )
            await connection.execute(FINISH, [row["id"] for row in taken])
        return watch.stop(count) | {"worker_us": (tree_cpu_s(os.getpid()) - cpu_s) / count * 1e6}


async def threads(count: int) -> Figures:
    return await _run(ThreadPoolExecutor(CALLS_AT_ONCE), nothing, count)


async def threads_block(count: int) -> Figures:
    return await _run(ThreadPoolExecutor(CALLS_AT_ONCE), block, count)


async def processes(count: int) -> Figures:
    return await _run(ProcessPoolExecutor(os.cpu_count()), compute, count)


TASKS = {"threads": threads, "threads_block": threads_block, "processes": processes}

"""Ten million finished jobs: what a claim costs in their presence, and what pruning them holds up."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import asyncpg

from bench.arithmetic import percentile
from bench.runs.filling import fill, settle_down
from bench.runs.kernels import kernel_over
from bench.stopwatch import Figures, postgres_url
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.turn import turn
from holdfast.kernel.upkeep.prune import prune_once

QUEUED = 32_000
CLAIM = 50
CLAIMS = 600
PRUNES = 40
DAY_MS = 86_400_000


async def history(count: int) -> Figures:
    """Claims in an almost empty database and in one with `count` finished jobs, in turn; then pruning."""
    full = f"{postgres_url()}_full"
    connection = await asyncpg.connect(postgres_url())
    name = full.rpartition("/")[2]
    await connection.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
    async with kernel_over() as small, kernel_over(url=full) as large:
        await _queued(small, postgres_url(), 0)
        await _queued(large, full, count)
        waits: dict[str, list[float]] = {"small": [], "large": []}
        for number in range(CLAIMS + 10):
            for which, kernel in (("small", small), ("large", large)):
                began = time.perf_counter()
                await turn(kernel, "bench", kernel.registry.queues, [], CLAIM)
                if number >= 10:
                    waits[which].append((time.perf_counter() - began) * 1_000)
        found = {f"{which}_p99_ms": percentile(taken, 0.99) for which, taken in waits.items()}
        found |= {f"{which}_p50_ms": percentile(taken, 0.5) for which, taken in waits.items()}
        found |= await _pruned(large)
    await connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    await connection.close()
    return {"jobs": count, **found}


async def _queued(kernel: Kernel, url: str, finished: int) -> None:
    connection = await asyncpg.connect(url)
    now = kernel.now()
    await fill(connection, finished, now - 90 * DAY_MS, "finished", events=True)
    await fill(connection, QUEUED, now - 60_000, "queued")
    await settle_down(connection)
    await connection.close()


async def _pruned(kernel: Kernel) -> Figures:
    """How long each pruning transaction lasts: what it locks, it locks for no longer."""
    spans: list[float] = []
    timed = replace(kernel, store=_Timed(kernel.store, spans))  # type: ignore[type-var]
    removed, began = 0, time.perf_counter()
    for _ in range(PRUNES):
        removed += await prune_once(timed)
    seconds = time.perf_counter() - began
    return {"lock_max_ms": max(spans), "lock_p50_ms": percentile(spans, 0.5), "pruned_per_s": removed / seconds}


class _Timed:
    """A store that notes how long each of its transactions was open."""

    def __init__(self, store: Any, spans: list[float]) -> None:
        self._store = store
        self._spans = spans

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        async with self._store.transaction() as tx:
            began = time.perf_counter()
            yield tx
        self._spans.append((time.perf_counter() - began) * 1_000)


TASKS = {"history": history}

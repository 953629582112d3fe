"""Jobs while somebody holds a snapshot, against the same without: two databases, turn about, so that a noisy second
hits both. A snapshot keeps the dead row versions of its own database only."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import asyncpg

from bench.runs import picking_up
from bench.runs.depth import CLAIM, ExplainingTx
from bench.runs.kernels import app, audited, kernel_over, orders
from bench.runs.working import drained
from bench.stopwatch import Figures, latency, postgres_url
from holdfast.core.floor import NO_FLOORS, SLACK_MS, Floors
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.submit import submit_orders
from holdfast.kernel.turn import turn
from holdfast.tables import jobs

SLICES = 10
RECOVERY_SLICES = 10
SIDES = ("free", "held")
ROUNDS, PICKUPS = 4, 50


@dataclass
class Side:
    """One database, and how long each slice of the burst took there."""

    kernel: Kernel
    seconds: list[float] = field(default_factory=list)
    database_us: list[float] = field(default_factory=list)

    async def run(self, count: int) -> float:
        await submit_orders(self.kernel, orders(self.kernel, count))
        figures = await drained(self.kernel, count, count)
        self.seconds.append(figures["seconds"])
        self.database_us.append(figures["database_us"])
        return count / figures["seconds"]


async def held(count: int) -> Figures:
    """A burst in ten slices behind a snapshot, the pick-up before and after it, and what its release brings back."""
    size = max(1, count // SLICES)
    async with AsyncExitStack() as stack:
        sides = {name: Side(await stack.enter_async_context(_kernel(name))) for name in SIDES}
        before = await _picked_up(sides)
        async with snapshot(_url("held")):
            for _ in range(SLICES):
                for side in sides.values():
                    await side.run(size)
            behind = await _picked_up(sides)
            cost = await _claim_costs(sides)
        released = await _recovered(sides, size)
        figures = _rates(count, sides["free"], sides["held"]) | released | cost
        figures |= {"before_p99_ms": before["held"], "held_p99_ms": behind["held"], "free_p99_ms": behind["free"]}
        figures["pickup_ratio"] = behind["held"] / before["held"]
        figures = await audited(sides["held"].kernel, figures)
    await _drop()
    return figures


@asynccontextmanager
async def _kernel(side: str) -> AsyncIterator[Kernel]:
    async with kernel_over([app, picking_up.app], await _database(side)) as kernel:
        yield kernel


@asynccontextmanager
async def snapshot(url: str) -> AsyncIterator[None]:
    """A transaction that has read something and stays open, as a report does."""
    reader = await asyncpg.connect(url, server_settings={"application_name": "report"})
    async with reader.transaction(isolation="repeatable_read"):
        await reader.fetch("SELECT 1 FROM holdfast_jobs LIMIT 1")
        yield
    await reader.close()


async def _picked_up(sides: Mapping[str, Side]) -> dict[str, float]:
    """The p99 of pick-up on each side, in rounds, turn about."""
    waits: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, side in sides.items():
            waits[name] += await picking_up.waits(side.kernel, PICKUPS)
    return {name: latency(waited)["p99_ms"] for name, waited in waits.items()}


async def _recovered(sides: Mapping[str, Side], size: int) -> Figures:
    """How long after the release the rate is what it is without a snapshot; the time of the other side is left out."""
    began, apart_s, size = time.perf_counter(), 0.0, max(1, size // RECOVERY_SLICES)
    for _ in range(RECOVERY_SLICES):
        other = time.perf_counter()
        former = await sides["free"].run(size)
        apart_s += time.perf_counter() - other
        started = time.perf_counter()
        if await sides["held"].run(size) >= 0.9 * former:
            return {"recovery_s": started - began - apart_s}
    return {"recovery_s": time.perf_counter() - began - apart_s}


def _rates(count: int, free: Side, held: Side) -> Figures:
    third = slice(SLICES - SLICES // 3, SLICES)
    behind, without = held.seconds[:SLICES], free.seconds[:SLICES]
    return {
        "jobs": count,
        "held_per_s": count / sum(behind),
        "free_per_s": count / sum(without),
        "ratio": sum(without) / sum(behind),
        "last_ratio": sum(without[third]) / sum(behind[third]),
        "held_database_us": sum(held.database_us[:SLICES]) / SLICES,
        "free_database_us": sum(free.database_us[:SLICES]) / SLICES,
    }


async def _claim_costs(sides: Mapping[str, Side]) -> Figures:
    """What a claim of fifty touches: from the floors that the process remembers, and from the bottom."""
    costs: Figures = {}
    for name, side in sides.items():
        await asyncio.sleep(SLACK_MS * 2 / 1_000)
        await turn(side.kernel, "bench", ["bench"], [], 1)  # its floor moves over what was done just now
        await submit_orders(side.kernel, orders(side.kernel, CLAIM))
        costs[f"{name}_buffers"] = await _claim_buffers(side.kernel, dict(side.kernel.floors.claims.floors))
    costs["bottom_buffers"] = await _claim_buffers(sides["held"].kernel, NO_FLOORS)
    costs["buffers_ratio"] = costs["held_buffers"] / costs["free_buffers"]
    return costs


async def _claim_buffers(kernel: Kernel, floors: Floors) -> float:
    """Claimed under EXPLAIN, and undone."""
    async with kernel.store.transaction() as tx:
        connection = tx.connection  # type: ignore[attr-defined]
        await connection.execute("SAVEPOINT explained")
        explaining, now = ExplainingTx(connection), kernel.now()
        claim = jobs.Claim("bench", ["bench"], kernel.registry.declared, CLAIM, now + 60_000, floors)
        await jobs.turn(explaining, (), claim, now)  # type: ignore[arg-type]
        await connection.execute("ROLLBACK TO explained")
    return float(explaining.buffers)


def _url(side: str) -> str:
    return f"{postgres_url()}_{side}"


async def _database(side: str) -> str:
    connection = await asyncpg.connect(postgres_url())
    await connection.execute(f'CREATE DATABASE "{_url(side).rpartition("/")[2]}" TEMPLATE template0')
    await connection.close()
    return _url(side)


async def _drop() -> None:
    connection = await asyncpg.connect(postgres_url())
    for side in SIDES:
        await connection.execute(f'DROP DATABASE IF EXISTS "{_url(side).rpartition("/")[2]}" WITH (FORCE)')
    await connection.close()


TASKS = {"held": held}

"""Jobs while somebody holds a snapshot, against the same without: two databases, turn about, so that a noisy second
hits both. A snapshot keeps the dead row versions of its own database only."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import asyncpg

from bench.runs.depth import ExplainingTx
from bench.runs.kernels import audited, kernel_over, orders
from bench.runs.working import drained
from bench.stopwatch import Figures, postgres_url
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.submit import submit_orders
from holdfast.tables import jobs

SLICES = 10
SIDES = ("free", "held")


@dataclass
class Side:
    """One database, and how long each slice of the burst took there."""

    kernel: Kernel
    seconds: list[float] = field(default_factory=list)
    database_us: list[float] = field(default_factory=list)

    async def run(self, count: int) -> None:
        await submit_orders(self.kernel, orders(self.kernel, count))
        figures = await drained(self.kernel, count, count)
        self.seconds.append(figures["seconds"])
        self.database_us.append(figures["database_us"])


async def held(count: int) -> Figures:
    """A burst in ten slices, and one more after the snapshot is released."""
    size = max(1, count // SLICES)
    async with AsyncExitStack() as stack:
        sides = {name: Side(await stack.enter_async_context(kernel_over(url=await _database(name)))) for name in SIDES}
        reader = await asyncpg.connect(_url("held"), server_settings={"application_name": "report"})
        transaction = reader.transaction(isolation="repeatable_read")
        await transaction.start()
        await reader.fetch("SELECT 1 FROM holdfast_jobs LIMIT 1")
        for _ in range(SLICES):
            for side in sides.values():
                await side.run(size)
        buffers = {name: await _claim_buffers(side.kernel) for name, side in sides.items()}
        await transaction.rollback()
        await reader.close()
        for side in sides.values():
            await side.run(size)
        found = _figures(count, sides["free"], sides["held"])
        found |= {f"{name}_buffers": touched for name, touched in buffers.items()}
        found = await audited(sides["held"].kernel, found)
    await _dropped()
    return found


def _figures(count: int, free: Side, held: Side) -> Figures:
    rates = [without / behind for without, behind in zip(free.seconds, held.seconds, strict=True)]
    third = SLICES // 3
    return {
        "jobs": count,
        "held_per_s": count / sum(held.seconds[:SLICES]),
        "free_per_s": count / sum(free.seconds[:SLICES]),
        "ratio": sum(free.seconds[:SLICES]) / sum(held.seconds[:SLICES]),
        "last_ratio": sum(free.seconds[SLICES - third : SLICES]) / sum(held.seconds[SLICES - third : SLICES]),
        "released_ratio": rates[SLICES],
        "held_database_us": sum(held.database_us[:SLICES]) / SLICES,
        "free_database_us": sum(free.database_us[:SLICES]) / SLICES,
    }


async def _claim_buffers(kernel: Kernel) -> float:
    """What a claim that finds nothing touches, from the floors that this process remembers."""
    async with kernel.store.transaction() as tx:
        explaining = ExplainingTx(tx.connection)  # type: ignore[attr-defined]
        registry, now = kernel.registry, kernel.now()
        floors = dict(kernel.floors.claims.floors)
        claim = jobs.Claim("bench", registry.queues, registry.declared, 50, now + 60_000, floors)
        await jobs.turn(explaining, (), claim, now)  # type: ignore[arg-type]
    return float(explaining.buffers)


def _url(side: str) -> str:
    return f"{postgres_url()}_{side}"


async def _database(side: str) -> str:
    connection = await asyncpg.connect(postgres_url())
    await connection.execute(f'CREATE DATABASE "{_url(side).rpartition("/")[2]}" TEMPLATE template0')
    await connection.close()
    return _url(side)


async def _dropped() -> None:
    connection = await asyncpg.connect(postgres_url())
    for side in SIDES:
        await connection.execute(f'DROP DATABASE IF EXISTS "{_url(side).rpartition("/")[2]}" WITH (FORCE)')
    await connection.close()


TASKS = {"held": held}

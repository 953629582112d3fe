"""What a claim costs when much lies in the table: by time and by buffers, from EXPLAIN (ANALYZE, BUFFERS).

Each case has a database of its own; claims go round all of them in turn, so that a noisy second hits every case.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import asyncpg

from bench.runs.filling import fill, settle_down
from bench.runs.kernels import kernel_over
from bench.stopwatch import Figures, postgres_url
from holdfast.kernel.kernel import Kernel
from holdfast.stores.statement import Statement
from holdfast.tables import jobs

FEW = 1_000
CLAIM = 50
CLAIMS = 16
WARM = 3
EXPLAIN = "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "


@dataclass(frozen=True, slots=True)
class Case:
    """What lies in the table beside what can be claimed: (how many per million, state, priorities in use)."""

    name: str
    piles: Sequence[tuple[int, str, int]]


CASES = (
    Case("few", ()),
    Case("queued", ((1_000_000, "queued", 1),)),
    Case("finished", ((1_000_000, "finished", 1),)),
    Case("future", ((200_000, "future", 4),)),
    Case("held", ((200_000, "held", 1),)),
    Case("priorities", ((200_000, "queued", 4),)),
)


class ExplainingTx:
    """Runs a statement under EXPLAIN and keeps what it cost; whoever asked gets no rows."""

    dialect = "postgres"

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.time_ms = 0.0
        self.buffers = 0
        self.plan: dict[str, Any] = {}

    async def rows(self, statement: Statement, **params: Any) -> list[Any]:
        given = [params[name] for name in statement.order]
        (found,) = json.loads(await self._connection.fetchval(EXPLAIN + statement.postgres, *given))
        self.time_ms += found["Execution Time"]
        self.buffers += touched(found["Plan"])
        self.plan = found
        return []


def touched(plan: dict[str, Any]) -> int:
    """Buffers of the whole statement. The top node counts what it reads from; a CTE that only writes (the events) is
    read by nobody, so its own are added."""
    nodes = list(_nodes(plan))
    read = {node["CTE Name"] for node in nodes if "CTE Name" in node}
    apart = [node for node in nodes if node.get("Subplan Name", "").removeprefix("CTE ") not in {"", *read}]
    written = [node for node in apart if node["Subplan Name"].startswith("CTE ")]
    return sum(node["Shared Hit Blocks"] + node["Shared Read Blocks"] for node in [plan, *written])


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


async def depth(count: int) -> Figures:
    """Claims of 50 against every case; `count` stands for the million."""
    times: dict[str, list[float]] = {case.name: [] for case in CASES}
    buffers: dict[str, list[float]] = {case.name: [] for case in CASES}
    async with AsyncExitStack() as stack:
        kernels = {case.name: await stack.enter_async_context(kernel_over(url=await _database(case))) for case in CASES}
        for case in CASES:
            await _filled(kernels[case.name], case, count)
        for number in range(WARM + CLAIMS):
            for case in CASES:
                cost = await claim_cost(kernels[case.name])
                if number >= WARM:
                    times[case.name].append(cost.time_ms)
                    buffers[case.name].append(cost.buffers)
    found: Figures = {"jobs": count}
    for case in CASES:
        found[f"{case.name}_ms"] = statistics.median(times[case.name])
        found[f"{case.name}_buffers"] = statistics.median(buffers[case.name])
    await _dropped()
    return found


async def claim_cost(kernel: Kernel) -> ExplainingTx:
    """What one claim of 50 costs, really made and committed."""
    async with kernel.store.transaction() as tx:
        explaining = ExplainingTx(tx.connection)  # type: ignore[attr-defined]
        registry, now = kernel.registry, kernel.now()
        claim = jobs.Claim("bench", registry.queues, registry.declared, CLAIM, now + 60_000)
        await jobs.turn(explaining, (), claim, now)  # type: ignore[arg-type]
    return explaining


def _url(case: str) -> str:
    return f"{postgres_url()}_{case}"


async def _database(case: Case) -> str:
    connection = await asyncpg.connect(postgres_url())
    await connection.execute(f'CREATE DATABASE "{_url(case.name).rpartition("/")[2]}" TEMPLATE template0')
    await connection.close()
    return _url(case.name)


async def _dropped() -> None:
    connection = await asyncpg.connect(postgres_url())
    for case in CASES:
        name = _url(case.name).rpartition("/")[2]
        await connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    await connection.close()


async def _filled(kernel: Kernel, case: Case, million: int) -> None:
    now = kernel.now()
    connection = await asyncpg.connect(_url(case.name))
    await fill(connection, FEW, now - 60_000, "queued")
    for size, state, priorities in case.piles:
        await fill(connection, int(size * million / 1_000_000), now - 3_600_000 - million, state, priorities)
    if case.name == "held":
        await connection.execute(
            "INSERT INTO holdfast_breakers (name, gate, updated_at) VALUES ('remote', 'open', $1)", now
        )
    await settle_down(connection)
    await connection.close()


TASKS = {"depth": depth}

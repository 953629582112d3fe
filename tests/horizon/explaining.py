"""A store that keeps what every statement costs: each is run under EXPLAIN first, undone, and then run as usual."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import holdfast.tables
from holdfast.stores.postgres import PostgresStore, PostgresTx
from holdfast.stores.seam import Row
from holdfast.stores.statement import Statement, Statements

EXPLAIN = "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "


def every_statement() -> dict[Statement, str]:
    """The kernel's statements that PostgreSQL runs, by name: `jobs.turn`."""
    named: dict[Statement, str] = {}
    for found in pkgutil.iter_modules(holdfast.tables.__path__):
        module = importlib.import_module(f"holdfast.tables.{found.name}")
        statements = getattr(module, "sql", None)
        if isinstance(statements, Statements):
            named |= {one: f"{found.name}.{name}" for name, one in statements.named.items() if one.postgres}
    return named


class ExplainingStore(PostgresStore):
    """Every transaction is one in which statements are explained; `buffers` has what each touched, at the
    most, `costs` every time."""

    def __init__(self, url: str, **given: Any) -> None:
        super().__init__(url, **given)
        self.names = every_statement()
        self.buffers: dict[str, int] = defaultdict(int)
        self.costs: dict[str, list[int]] = defaultdict(list)
        self.plans: dict[str, Any] = {}

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[PostgresTx]:
        async with super().transaction() as tx:
            yield ExplainingTx(self, tx)

    single_statement = transaction
    reading = transaction

    def forget(self) -> None:
        self.buffers, self.costs = defaultdict(int), defaultdict(list)


class ExplainingTx(PostgresTx):
    def __init__(self, store: ExplainingStore, tx: PostgresTx) -> None:
        super().__init__(tx.connection)
        self._store, self._callbacks = store, tx._callbacks

    async def rows(self, statement: Statement, **params: Any) -> Sequence[Row]:
        given = [params[name] for name in statement.order]
        await self.connection.execute("SAVEPOINT explained")
        (found,) = json.loads(await self.connection.fetchval(EXPLAIN + statement.postgres, *given))
        await self.connection.execute("ROLLBACK TO explained")
        name, cost = self._store.names.get(statement, statement.name), touched(found["Plan"])
        self._store.costs[name].append(cost)
        if cost >= self._store.buffers[name]:
            self._store.buffers[name], self._store.plans[name] = cost, found["Plan"]
        return await super().rows(statement, **params)


def touched(plan: dict[str, Any]) -> int:
    """Buffers of the whole statement. The top node counts what it reads from; a CTE that only writes is read by nobody,
    so its own are added."""
    nodes = list(_nodes(plan))
    read = {node["CTE Name"] for node in nodes if "CTE Name" in node}
    apart = [node for node in nodes if node.get("Subplan Name", "").removeprefix("CTE ") not in {"", *read}]
    written = [node for node in apart if node["Subplan Name"].startswith("CTE ")]
    return sum(node["Shared Hit Blocks"] + node["Shared Read Blocks"] for node in [plan, *written])


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)

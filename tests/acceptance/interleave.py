"""Runs two parties of the kernel's own code on two real sessions, statement by statement, in every order.

A party stops before each of its statements and before each commit until it is granted the next step. A step that has
to wait for the other's lock is seen in PostgreSQL itself; its party goes on by itself once the lock is free.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import combinations
from typing import Any

import asyncpg

from holdfast.errors import StoreBusy
from holdfast.stores.migration import PATIENCE, Applied, Patience
from holdfast.stores.postgres import PostgresStore, PostgresTx
from holdfast.stores.seam import Dialect, Listener, Row
from holdfast.stores.statement import Migration, Statement

NEWS_S = 0.004
PATIENCE_S = 10.0
Work = Callable[[], Awaitable[Any]]


class Party:
    """One of the two. `gates`: the statements it stops at (None: all); it always stops before a commit of them."""

    def __init__(self, gates: frozenset[str] | None = None) -> None:
        self.gates = gates
        self.outcome: Any = None
        self.pid = 0
        self.steps: list[str] = []
        self.waits_for_lock = False
        self._at_gate = False
        self._granted = asyncio.Event()
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_done(self) -> bool:
        return self._task is not None and self._task.done()

    async def gate(self, name: str) -> None:
        """Called by the party's store: stand here until the next step is granted."""
        if self._task is None or self._task.done() or (self.gates is not None and name not in self.gates):
            return
        self.steps.append(name)
        self._at_gate = True
        self._news.set()
        await self._granted.wait()
        self._granted.clear()

    def begin(self, work: Work) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(work))
        self._task.add_done_callback(lambda _: self._news.set())

    async def _run(self, work: Work) -> None:
        try:
            self.outcome = await work()
        except Exception as error:
            self.outcome = error

    async def step(self, watcher: Watcher) -> None:
        """Grant one step, and return when the party rests: at its next gate, at its end, or before a lock."""
        if self._at_gate:
            self._at_gate = False
            self._news.clear()
            self._granted.set()
        await self.rest(watcher)

    async def rest(self, watcher: Watcher) -> None:
        self.waits_for_lock = False
        while not (self._at_gate or self.is_done):
            try:
                async with asyncio.timeout(NEWS_S):
                    await self._news.wait()
            except TimeoutError:
                if await watcher.is_blocked(self.pid):
                    self.waits_for_lock = True
                    return
            self._news.clear()


class Watcher:
    """A third session, which asks who waits for whom."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def is_blocked(self, pid: int) -> bool:
        return bool(await self.connection.fetchval("SELECT cardinality(pg_blocking_pids($1)) > 0", pid))


async def play(left: Party, right: Party, works: Sequence[Work], order: str, watcher: Watcher) -> None:
    """Take the steps in this order ('L' and 'R'), then whatever is left, until both have ended."""
    parties = {"L": left, "R": right}
    async with asyncio.timeout(PATIENCE_S):
        for party, work in zip(parties.values(), works, strict=True):
            party.begin(work)
            await party.rest(watcher)
        for letter in order:
            await _advance(parties, letter, watcher)
        while not (left.is_done and right.is_done):
            for letter in "LR":
                await _advance(parties, letter, watcher)


async def _advance(parties: dict[str, Party], letter: str, watcher: Watcher) -> None:
    party = parties[letter]
    if not party.is_done:
        await (party.rest(watcher) if party.waits_for_lock else party.step(watcher))
    for other in parties.values():
        if other.waits_for_lock:  # what was just done may have let it go on
            await other.rest(watcher)


def orders(left_steps: int, right_steps: int) -> Iterator[str]:
    """Every way to merge two runs of steps."""
    total = left_steps + right_steps
    for places in combinations(range(total), left_steps):
        yield "".join("L" if at in places else "R" for at in range(total))


class GatedStore:
    """A PostgreSQL store whose statements and commits wait for their turn."""

    dialect: Dialect = "postgres"
    has_one_writer = False

    def __init__(self, inner: PostgresStore) -> None:
        self.inner = inner
        self.party = Party()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[GatedTx]:
        async with self.inner.transaction() as tx:
            gated = GatedTx(tx, self.party)
            yield gated
            if gated.touched:
                await self.party.gate("commit")

    def single_statement(self) -> AbstractAsyncContextManager[GatedTx]:
        """With a commit of its own, so that there is a moment between the statement's locks and their end."""
        return self.transaction()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[GatedTx]:
        async with self.inner.reading() as tx:
            yield GatedTx(tx, self.party)

    def listen(self, channel: str) -> Listener:
        return self.inner.listen(channel)

    def now(self) -> int:
        return self.inner.now()

    async def installed(self) -> Sequence[Applied]:
        return await self.inner.installed()

    async def migrate(self, migrations: Sequence[Migration], patience: Patience = PATIENCE) -> list[str]:
        return await self.inner.migrate(migrations, patience)

    async def close(self) -> None:
        await self.inner.close()


class GatedTx:
    dialect: Dialect = "postgres"

    def __init__(self, inner: PostgresTx, party: Party) -> None:
        self.inner = inner
        self.party = party
        self.touched = False

    async def rows(self, statement: Statement, **params: Any) -> Sequence[Row]:
        self.party.pid = self.inner.connection.get_server_pid()
        if self.party.gates is None or statement.name in self.party.gates:
            self.touched = True
            await self.party.gate(statement.name)
        return await self.inner.rows(statement, **params)

    async def load(self, table: str, columns: Sequence[str], lines: str) -> None:
        await self.inner.load(table, columns, lines)

    async def notify(self, channel: str) -> None:
        await self.inner.notify(channel)

    def after_commit(self, callback: Callable[[], None]) -> None:
        self.inner.after_commit(callback)


def again(work: Work, tries: int = 5) -> Work:
    """As the kernel's loops do: a statement that PostgreSQL asked to try again is tried again."""

    async def tried() -> Any:
        for _ in range(tries - 1):
            try:
                return await work()
            except StoreBusy:
                continue
        return await work()

    return tried


async def connect(url: str) -> Watcher:
    return Watcher(await asyncpg.connect(url))

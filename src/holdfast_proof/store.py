"""The simulator's database: the production SQLite store on a real file, with a host at one end and faults at the other.

    begin     the database is down, or busy (nothing was written)
    commit    its answer is lost: `StoreUnavailable`, although everything was written
    kill      the connection is rolled back: what was not committed is gone
    notify    a commit's hints reach the other hosts a little later, or never (they also poll)

Opening a connection costs 0.7 ms (SQLite parses the schema), a whole seed 60. So a process keeps one file and its
connections, and every seed begins by emptying the tables; `Arena` does that. A killed host's connection is rolled
back and handed to the next host, which is all that closing it would do to the data. SQLite lets one connection write at
a time, so all hosts write through one and take turns: whoever asks while another's transaction is open is told that
the database is busy, as with a connection of its own, but what the others wrote is still in its cache.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.util import Finalize
from pathlib import Path
from random import Random

from holdfast.errors import StoreBusy, StoreUnavailable
from holdfast.stores.listeners import Listeners
from holdfast.stores.migration import pending
from holdfast.stores.seam import Row, Store
from holdfast.stores.sqlite import SqliteStore, _Lane, _translated
from holdfast.stores.statement import Migration
from holdfast_proof.hosts import Host
from holdfast_proof.loop import SimLoop

MEMORY = Path("/dev/shm")
BUSY_RETRY_S = 0.25
NOTIFY_MS_MAX = 30
# How often others run between a call into the store and its work, and between its commit and the answer.
PAUSES = 0.3


@dataclass(slots=True)
class StoreFaults:
    """How often what goes wrong, per transaction. May be changed at any time; the default is a good day."""

    busy: float = 0.0
    answer_lost: float = 0.0
    hint_lost: float = 0.0
    down_until_ms: int = 0


class Holder:
    """Who uses a connection now: what the triggers' functions answer with."""

    __slots__ = ("connection", "host")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.host: Host | None = None
        connection.create_function("proof_host", 0, lambda: self.host.label if self.host else "")
        connection.create_function("proof_at", 0, lambda: self.host.loop.now_ms if self.host else 0)
        connection.create_function("proof_wall", 0, lambda: self.host.wall_ms if self.host else 0)


class Arena:
    """One database file of one process, emptied for every seed."""

    def __init__(self, name: str, migrations: Sequence[Migration], harness: Sequence[str]) -> None:
        memory = MEMORY if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) else None
        folder = tempfile.mkdtemp(prefix=f"holdfast-{name}-", dir=memory)
        # Unlike a temporary directory's own, this also runs at the end of a forked worker, and only in its own process.
        self._cleanup = Finalize(self, shutil.rmtree, (folder,), {"ignore_errors": True}, exitpriority=10)
        self.path = str(Path(folder) / "sim.db")
        self._idle: list[Holder] = []
        self._busy: list[Holder] = []
        self.faults = StoreFaults()
        self.done: Counter[str] = Counter()
        self.stores: list[SimStore] = []
        keeper = self.take(None).connection
        self.writer = self.take(None)
        keeper.execute("CREATE TABLE holdfast_schema (namespace TEXT, version INTEGER, applied_at BIGINT)")
        for migration in pending(migrations, []):
            for text in migration.statements("sqlite"):
                keeper.execute(text)
        for text in harness:
            keeper.execute(text)
        tables = keeper.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        self._tables = [row["name"] for row in tables if row["name"] != "holdfast_schema"]
        self.keeper = keeper

    def reset(self) -> None:
        """Empty every table, forget every store, let no connection remember a transaction."""
        for holder in self._busy[2:]:
            self._give_back(holder)
        self._busy = self._busy[:2]  # the keeper and the writer
        self.release(self.writer.host)
        for holder in self._idle:  # a coroutine that was ended with its loop may have begun something on its way out
            if holder.connection.in_transaction:
                holder.connection.execute("ROLLBACK")
        self.stores = []
        self.faults = StoreFaults()
        self.done = Counter()
        self.keeper.execute("BEGIN IMMEDIATE")
        for table in self._tables:
            self.keeper.execute(f"DELETE FROM {table}")
        self.keeper.execute("DELETE FROM sqlite_sequence")
        self.keeper.execute("COMMIT")

    def seize(self, host: Host) -> None:
        """Make this host the one that writes, until `release`."""
        if self.writer.host is not None:
            raise StoreBusy("Another process is writing.")
        self.writer.host = host

    def release(self, host: Host | None) -> None:
        """Undo what this host has not committed, and let others write. Nothing if it does not write."""
        if self.writer.host is host:
            if self.writer.connection.in_transaction:
                self.writer.connection.execute("ROLLBACK")
            self.writer.host = None

    def take(self, host: Host | None) -> Holder:
        holder = self._idle.pop() if self._idle else Holder(_open(self.path))
        holder.host = host
        self._busy.append(holder)
        return holder

    def drop(self, holder: Holder) -> None:
        self._busy.remove(holder)
        self._give_back(holder)

    def _give_back(self, holder: Holder) -> None:
        if holder.connection.in_transaction:
            holder.connection.execute("ROLLBACK")
        holder.host = None
        self._idle.append(holder)

    def open(self, host: Host, dice: Random) -> SimStore:
        """The store of one process."""
        return SimStore(self, host, dice)

    def close(self) -> None:
        for holder in [*self._busy, *self._idle]:
            holder.connection.close()
        self._cleanup()


class SimStore(SqliteStore):
    """The production store of one host. Dies with it."""

    def __init__(self, arena: Arena, host: Host, dice: Random) -> None:
        super().__init__(arena.path, clock=HostClock(host), busy_timeout_s=5.0, inline=True)
        self._arena = arena
        self._loop: SimLoop = host.loop
        self._dice = dice
        self._listeners: SimListeners = SimListeners(self)
        self._writer: _Lane = WritingLane(arena, host, self)
        self._reader: _Lane = ReadingLane(arena, host)
        arena.stores.append(self)
        host.at_death(lambda _: self.abandon())

    def let_go(self) -> None:
        """No thread here asks for it."""

    def spare(self) -> Store | None:
        return None  # a thread would run beside the simulation's one loop

    def abandon(self) -> None:
        super().abandon()
        if self in self._arena.stores:
            self._arena.stores.remove(self)

    async def _begin(self, lane: _Lane, text: str) -> None:
        """As the production store waits, but in longer steps: a stalled writer would cost thousands of them."""
        await self._loop.gate()
        if self._dice.random() < PAUSES:
            await asyncio.sleep(0)
        faults = self._arena.faults
        if faults.down_until_ms > self._loop.now_ms:
            raise StoreUnavailable("The database is down.")
        if lane is self._writer and faults.busy and self._dice.random() < faults.busy:
            self._arena.done["store_busy"] += 1
            raise StoreBusy("Another process is writing; nothing was written.")
        give_up_at = self._loop.time() + self._busy_timeout_s
        while True:
            try:
                await lane.begin(text)
                return
            except StoreBusy:
                if self._loop.time() >= give_up_at:
                    raise
                await asyncio.sleep(BUSY_RETRY_S)

    async def committed(self) -> None:
        """The answer to a commit is on its way."""
        if self._dice.random() < PAUSES:
            await asyncio.sleep(0)
        lost = self._arena.faults.answer_lost
        if lost and self._dice.random() < lost:
            self._arena.done["answer_lost"] += 1
            raise StoreUnavailable("The connection broke while the commit was under way; it may have happened.")

    def notify(self, channel: str) -> None:
        """Tell the other processes, a little later; or not."""
        for store in self._arena.stores:
            if store is self or not store._listeners.has(channel):
                continue
            if self._dice.random() < self._arena.faults.hint_lost:
                self._arena.done["hint_lost"] += 1
            else:
                delay_ms = self._dice.randint(1, NOTIFY_MS_MAX)
                self._loop.world.after_ms(delay_ms, store._listeners.wake_here, channel)


class SimListeners(Listeners):
    """A store's own listeners. A wake-up after a commit of its own is heard in other processes too."""

    def __init__(self, store: SimStore) -> None:
        super().__init__()
        self._store = store

    def has(self, channel: str) -> bool:
        return bool(self._listeners.get(channel))

    def wake(self, channel: str, ticket: str = "") -> None:
        super().wake(channel, ticket)
        self._store.notify(channel)

    def wake_here(self, channel: str) -> None:
        super().wake(channel)


class SimLane(_Lane):
    """A host's way into the arena; refuses everything once the host is dead."""

    def __init__(self, arena: Arena, host: Host) -> None:
        super().__init__(arena.path, inline=True)
        self._arena = arena
        self._host = host
        self._over = False

    async def rollback(self) -> None:
        self._rollback()


class ReadingLane(SimLane):
    """A connection of its own: what it reads does not change while it reads."""

    _holder: Holder | None = None

    def abandon(self) -> None:
        self._over = True
        if self._holder is not None:
            self._arena.drop(self._holder)
            self._holder = None

    def _rollback(self) -> None:
        if self._holder is not None and self._holder.connection.in_transaction:
            self._holder.connection.execute("ROLLBACK")

    async def execute(self, text: str, params: dict[str, object] | None = None, brief: bool = False) -> Sequence[Row]:
        if self._over:
            raise StoreUnavailable("This process is dead.")
        if self._holder is None:
            self._holder = self._arena.take(self._host)
        return _run(self._holder.connection, text, params)


class WritingLane(SimLane):
    """The arena's writing connection, from BEGIN to COMMIT or ROLLBACK."""

    def __init__(self, arena: Arena, host: Host, store: SimStore) -> None:
        super().__init__(arena, host)
        self._store = store

    def abandon(self) -> None:
        self._over = True
        self._arena.release(self._host)

    def _rollback(self) -> None:
        self._arena.release(self._host)

    async def execute(self, text: str, params: dict[str, object] | None = None, brief: bool = False) -> Sequence[Row]:
        writer = self._arena.writer
        if self._over:
            raise StoreUnavailable("This process is dead.")
        if params is None and text.startswith("BEGIN"):
            self._arena.seize(self._host)
        elif writer.host is not self._host:
            raise StoreUnavailable("The transaction is over.")
        rows = _run(writer.connection, text, params)
        if text == "COMMIT":
            self._arena.release(self._host)
            await self._store.committed()
        return rows


def _run(connection: sqlite3.Connection, text: str, params: dict[str, object] | None) -> Sequence[Row]:
    try:
        return connection.execute(text, params or {}).fetchall()
    except sqlite3.Error as error:
        raise _translated(error, "") from error


class HostClock:
    """What a host's clock shows: the simulation's time plus the host's skew."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def now_ms(self) -> int:
        return self._host.wall_ms


def _open(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=5.0, cached_statements=256)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = OFF")  # the file is in memory: nothing here tests power loss
    connection.execute("PRAGMA busy_timeout = 0")
    connection.execute("PRAGMA wal_autocheckpoint = 1000")  # a log that fits the processor's cache
    return connection

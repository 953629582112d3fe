"""SQLite: the embedded store, and the simulator's database.

WAL with `synchronous=FULL`: what was accepted survives power loss. Every writing transaction opens with BEGIN
IMMEDIATE, because upgrading a read to a write fails at once instead of waiting. One connection writes and one
reads; several processes may share the file.

What may take long runs in a thread of its own, unless `inline` is set: every commit that waits for the disk, and every
statement that is not marked as brief. What is brief runs where it is asked for: handing it to a thread and back costs
more than doing it, and in a busy process each way waits for the interpreter's lock besides.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast.errors import (
    SchemaMismatch,
    StoreBusy,
    StoreConflict,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from holdfast.stores.clock import Clock, SystemClock
from holdfast.stores.examination import Examination
from holdfast.stores.listeners import TICKET, Heed, Listeners
from holdfast.stores.migration import PATIENCE, SCHEMA_TABLE, Applied, Patience, pending
from holdfast.stores.seam import Dialect, Listener, Row, Store, name_rows
from holdfast.stores.statement import Migration, Statement

BUSY_RETRY_S = 0.005
BRIEF_BYTES_MAX = 32_768
"""A brief statement with a larger batch than this (some 200 rows) is not brief any more."""
SQLITE_MIN = (3, 38, 0)


class SqliteStore:
    dialect: Dialect = "sqlite"
    has_one_writer = True

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Clock | None = None,
        busy_timeout_s: float = 10.0,
        inline: bool = False,
    ) -> None:
        if sqlite3.sqlite_version_info < SQLITE_MIN:
            raise StoreError(f"SQLite {sqlite3.sqlite_version} is too old; Holdfast needs 3.38 or newer.")
        self.path = str(path)
        self._clock = clock or SystemClock()
        self._busy_timeout_s = busy_timeout_s
        self._listeners = Listeners()
        self._writer = _Lane(self.path, inline)
        self._reader = _Lane(self.path, inline)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[SqliteTx]:
        lane = self._writer
        async with lane.lock:
            tx = SqliteTx(lane)
            try:
                await self._begin(lane, "BEGIN IMMEDIATE")
                yield tx
                await lane.commit()
            except BaseException:
                await lane.rollback()
                raise
        for channel in sorted(tx.channels):
            name, _, ticket = channel.partition(TICKET)
            self._listeners.wake(name, ticket)
        for callback in tx.callbacks:
            callback()

    def single_statement(self) -> AbstractAsyncContextManager[SqliteTx]:
        return self.transaction()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[SqliteTx]:
        lane = self._reader
        async with lane.lock:
            try:
                await self._begin(lane, "BEGIN")
                yield SqliteTx(lane)
            finally:
                await lane.rollback()

    def listen(self, channel: str, heed: Heed | None = None) -> Listener:
        return self._listeners.listen(channel, heed)

    def is_heard(self) -> bool:
        return False  # other processes that use the file hear nothing of it

    def now(self) -> int:
        return self._clock.now_ms()

    async def installed(self) -> list[Applied]:
        if not self.path.startswith("file:") and not os.path.exists(self.path):  # noqa: ASYNC240 (a stat is brief)
            return []  # to look makes no file
        async with self.reading() as tx:
            return await _installed(tx.lane)

    async def migrate(self, migrations: Sequence[Migration], patience: Patience = PATIENCE) -> list[str]:
        """One transaction a step, each as patient as `wait_s` says: a writer holds up every other for that long."""
        applied: list[str] = []
        give_up_at = asyncio.get_running_loop().time() + patience.wait_s
        while pending(migrations, await self.installed()):
            try:
                async with self.transaction() as tx:
                    applied += await _apply_next(tx.lane, migrations, self.now())
            except StoreBusy as error:
                if asyncio.get_running_loop().time() >= give_up_at:
                    raise
                patience.report(str(error))
        return applied

    def spare(self) -> Store | None:
        return SqliteStore(self.path, clock=self._clock)

    def let_go(self) -> None:
        self._writer.let_go()

    async def examine(self) -> Examination:
        found = os.path.exists(self.path)  # noqa: ASYNC240 (a stat is brief)
        is_writable = os.access(self.path, os.W_OK) if found else True  # it is made when it is needed
        return Examination(
            (f"SQLite {sqlite3.sqlite_version}", "a file" if found else "no file yet"), is_writable=is_writable
        )

    def place(self) -> str:
        return f"sqlite:///{self.path}"

    async def close(self) -> None:
        await self._writer.close()
        await self._reader.close()

    def abandon(self) -> None:
        """Drop both connections as a dying process would: whatever was not committed is gone."""
        self._writer.abandon()
        self._reader.abandon()

    async def _begin(self, lane: _Lane, text: str) -> None:
        """Wait for our turn. Waiting is a sleep, not SQLite's own, so that no thread is held."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._busy_timeout_s
        while True:
            try:
                await lane.begin(text)
                return
            except StoreBusy:
                if loop.time() >= give_up_at:
                    raise
                await asyncio.sleep(BUSY_RETRY_S)


class SqliteTx:
    dialect: Dialect = "sqlite"

    def __init__(self, lane: _Lane) -> None:
        self.lane = lane
        self.channels: set[str] = set()
        self.callbacks: list[Callable[[], None]] = []

    async def rows(self, statement: Statement, *, into: Any = None, **params: Any) -> Any:
        brief = statement.is_brief and len(params.get("batch", "")) <= BRIEF_BYTES_MAX
        return name_rows(await self.lane.execute(statement.sqlite, params, brief), into)

    async def notify(self, channel: str, *, to_all: bool = False) -> None:
        self.channels.add(channel)

    def after_commit(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)


class _Lane:
    """One connection and the one thread that uses it while anything may take long. A single thread keeps the order of
    statements even when the task that awaits one of them is cancelled: what was handed to the thread runs, a rollback
    comes after it, and nothing runs beside it."""

    def __init__(self, path: str, inline: bool) -> None:
        self.path = path
        self.lock = asyncio.Lock()
        self._inline = inline
        self._thread: ThreadPoolExecutor | None = None
        self._handed = 0
        self._connection: sqlite3.Connection | None = None
        self._changes = 0
        self._at_work = threading.Lock()  # held for the length of a statement
        self._is_ended = False

    async def begin(self, text: str) -> None:
        """Never waits for the disk: whoever is not first is told so at once."""
        await self.execute(text, brief=True)
        self._changes = self._changed()

    async def execute(self, text: str, params: dict[str, Any] | None = None, brief: bool = False) -> Sequence[Row]:
        rows: Sequence[Row] = await self._in_turn(self._execute, text, params, brief=brief)
        return rows

    async def commit(self) -> None:
        """Only what was written waits for the disk."""
        await self.execute("COMMIT", brief=self._changed() == self._changes)

    async def rollback(self) -> None:
        """Undo what is open, if anything is: SQLite ends a transaction by itself when its disk is full."""
        await self._in_turn(self._rollback, brief=True)

    async def close(self) -> None:
        """Whoever asks for something afterwards opens it again, as a pool of PostgreSQL does."""
        if self._inline or self._thread is not None:
            await self._in_turn(self.abandon)
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown(wait=True)

    def abandon(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def let_go(self) -> None:
        """Roll back what is open, unless a statement runs just now."""
        if self._at_work.acquire(blocking=False):
            try:
                if self._connection is not None and self._connection.in_transaction:
                    self._connection.rollback()
                    self._is_ended = True
            finally:
                self._at_work.release()

    async def _in_turn(self, work: Callable[..., Any], *arguments: Any, brief: bool = False) -> Any:
        if self._inline or (brief and self._connection is not None and not self._handed):
            return work(*arguments)
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite")
        handed = asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)
        self._handed += 1
        handed.add_done_callback(self._taken_back)
        # Shielded: a cancelled task must not take its statement out of the thread's queue, least of all a rollback.
        return await asyncio.shield(handed)

    def _taken_back(self, _: asyncio.Future[Any]) -> None:
        self._handed -= 1

    def _changed(self) -> int:
        return 0 if self._connection is None else self._connection.total_changes

    def _rollback(self) -> None:
        with self._at_work:
            self._is_ended = False
            if self._connection is not None and self._connection.in_transaction:
                self._connection.rollback()

    def _execute(self, text: str, params: dict[str, Any] | None) -> Sequence[Row]:
        with self._at_work:
            if self._is_ended:
                raise StoreBusy(
                    "The event loop was blocked for so long that its transaction was ended; nothing was written."
                )
            try:
                if self._connection is None:
                    self._connection = _open(self.path)
                return self._connection.execute(text, params or {}).fetchall()
            except sqlite3.Error as error:
                raise _translated(error, self.path) from error


def _open(path: str) -> sqlite3.Connection:
    if not path.startswith("file:"):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, uri=path.startswith("file:"), timeout=5.0
    )
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA busy_timeout = 0")
    return connection


async def _installed(lane: _Lane) -> list[Applied]:
    if not await lane.execute("SELECT 1 FROM sqlite_master WHERE name = 'holdfast_schema'"):
        return []
    found = [dict(row) for row in await lane.execute("SELECT * FROM holdfast_schema")]
    return [Applied(row["namespace"], row["version"], row.get("oldest")) for row in found]


async def _apply_next(lane: _Lane, migrations: Sequence[Migration], now: int) -> list[str]:
    await lane.execute(SCHEMA_TABLE)
    if not await lane.execute("SELECT 1 FROM pragma_table_info('holdfast_schema') WHERE name = 'oldest'"):
        await lane.execute("ALTER TABLE holdfast_schema ADD COLUMN oldest INTEGER")
    for step in pending(migrations, await _installed(lane))[:1]:
        for text in step.statements("sqlite"):
            await lane.execute(text)
        record = {"namespace": step.namespace, "version": step.version, "at": now, "oldest": step.oldest}
        await lane.execute(_RECORD, record)
        return [step.name]
    return []


_RECORD = """INSERT INTO holdfast_schema (namespace, version, applied_at, oldest)
VALUES (:namespace, :version, :at, :oldest)"""


def _translated(error: sqlite3.Error, path: str) -> StoreError:
    """By its code: the words of an error may hold the names of a user's columns, or say "malformed" of a value."""
    text, code = str(error), getattr(error, "sqlite_errorcode", 0)
    primary = code & 0xFF
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusy(f"Another process is writing to {Path(path).name}; nothing was written.")
    if primary == sqlite3.SQLITE_READONLY:
        return StoreReadOnly(f"Cannot write to {Path(path).name} ({text}); fix permissions.")
    if primary in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return StoreFull(f"Cannot write to {Path(path).name} ({text}); free space or fix permissions.")
    if primary in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return StoreUnavailable(f"Cannot open the database {Path(path).name}: {text}.")
    if code in (sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY):
        return StoreConflict(f"{Path(path).name} has this row already: {text}.")
    if text.startswith(("no such table: holdfast_", "no such column: holdfast_")):
        return SchemaMismatch(f"{Path(path).name} lacks what this code needs ({text}); run holdfast migrate.")
    return StoreError(f"SQLite refused a statement: {text}.")

"""PostgreSQL, for more than one machine. asyncpg, a small pool, LISTEN/NOTIFY on a connection of its own; directly or
through a pooler (`postgres_session`).

Time is the database's: the offset to the local clock is measured when connecting and again now and then, so that all
workers share one timeline while `now` stays a parameter of every statement.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import asyncpg

from holdfast.errors import StoreError, StoreReadOnly, StoreStandby
from holdfast.stores.clock import Clock, SystemClock, correct_offset
from holdfast.stores.connecting import Connecting, beside, split_settings
from holdfast.stores.examination import Examination
from holdfast.stores.listeners import ADDRESSED, TICKET, Heed, Listeners
from holdfast.stores.migration import PATIENCE, Applied, Patience
from holdfast.stores.postgres_errors import hosts_of, naming, place_of, translating
from holdfast.stores.postgres_examine import examine
from holdfast.stores.postgres_listen import CLOCK_EVERY_S, LISTEN_CHANNEL, LOOK_AFTER, RECONNECT_S, NotificationReader
from holdfast.stores.postgres_migrate import Migrator, installed
from holdfast.stores.postgres_session import Sessions, look
from holdfast.stores.seam import Dialect, Listener, Store, name_rows
from holdfast.stores.statement import Migration, Statement

CLOSE_S = 2.0
IDLE_S = 60.0
_RING = "SELECT pg_notify($1, $2)"
# The number of the transaction is the ring's ticket: all who listen see the same one, and one of them answers.
_RING_ONE = "SELECT pg_notify($1, $2 || CAST(txid_current() AS TEXT))"


class PostgresStore:
    dialect: Dialect = "postgres"
    has_one_writer = False

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        connecting: Connecting | None = None,
        command_timeout_s: float = 30.0,
    ) -> None:
        self._url = url
        self._connecting = connecting or Connecting()
        self._clock = clock or SystemClock()
        self._measured = clock is None  # a clock that was brought along is trusted as it is
        self._command_timeout_s = command_timeout_s
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._sessions = Sessions()
        self._opening = asyncio.Lock()
        self._listeners = Listeners()
        self._notifications = NotificationReader(self._listeners, self._look_after)
        self._listening: asyncio.Task[None] | None = None
        self._offset_ms = 0

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[PostgresTx]:
        async with self._acquired() as connection, self._planned(connection) as tx:
            yield tx
        tx.run_callbacks()

    @asynccontextmanager
    async def single_statement(self) -> AsyncIterator[PostgresTx]:
        """Planned once a session: to plan a turn takes as long as it does (2.8 ms a group of 200)."""
        async with self._acquired(plans_once=True) as connection:
            if self._sessions.needs_begin:
                async with self._planned(connection) as tx:
                    yield tx
            else:
                tx = PostgresTx(connection)
                yield tx
        tx.run_callbacks()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[PostgresTx]:
        """Planned each time. In a session that plans once that takes a transaction, which is no message more than to
        switch it over and back. Elsewhere the first statement stands alone, as it does most often, and what is read
        after it is one transaction: a look of thirty statements is two, and not thirty."""
        async with self._acquired() as connection:
            if self._sessions.needs_begin or self._sessions.plans_once(connection):
                async with self._planned(connection) as tx:
                    yield tx
            else:
                async with AsyncExitStack() as rest:
                    yield ReadingTx(connection, lambda: rest.enter_async_context(self._planned(connection)))

    def listen(self, channel: str, heed: Heed | None = None) -> Listener:
        if self._listening is None:
            self._listening = asyncio.get_running_loop().create_task(self._listen())
        return self._listeners.listen(channel, heed)

    def is_heard(self) -> bool:
        return self._notifications.is_heard

    def now(self) -> int:
        return self._clock.now_ms() + self._offset_ms

    async def installed(self) -> list[Applied]:
        async with self.reading() as tx:
            with translating():
                return await installed(tx.connection)

    async def migrate(self, migrations: Sequence[Migration], patience: Patience = PATIENCE) -> list[str]:
        return await Migrator(self._direct_url() or self._url, patience).run(migrations)

    def spare(self) -> Store | None:
        clock = None if self._measured else self._clock
        connecting = replace(self._connecting, connections=1)
        return PostgresStore(self._url, clock=clock, connecting=connecting, command_timeout_s=self._command_timeout_s)

    def let_go(self) -> None:
        """The server does it, and others wait only for the same rows."""

    async def examine(self) -> Examination:
        direct_url = self._direct_url()
        async with self._acquired() as connection:
            with translating():
                return await examine(connection, self._sessions, direct_url)

    def place(self) -> str:
        return place_of(self._url)

    async def close(self) -> None:
        """Say goodbye to the server, within a limit: one that does not answer is left without."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening], timeout=CLOSE_S)
            self._listening = None
        pool, self._pool = self._pool, None
        if pool is not None:
            with contextlib.suppress(TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                async with asyncio.timeout(CLOSE_S):
                    await pool.close()
            pool.terminate()

    def abandon(self) -> None:
        """Drop every connection as a dying process would: whatever was not committed is gone."""
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None
        if self._pool is not None:
            self._pool.terminate()
            self._pool = None

    @asynccontextmanager
    async def _acquired(self, plans_once: bool = False) -> AsyncIterator[Any]:
        pool = self._pool or await self._open()
        with translating(), naming(self._url):
            connection = await pool.acquire(timeout=self._command_timeout_s)
        try:
            if plans_once:
                with translating():
                    await self._sessions.plan_once(connection)
            yield connection
        except StoreReadOnly as error:
            raise await self._standby(connection) or error from error
        finally:
            with translating():
                await pool.release(connection)

    async def _standby(self, connection: Any) -> StoreStandby | None:
        """Whether the server refuses writes because it follows another: then it may be promoted any moment."""
        with contextlib.suppress(Exception):
            if await connection.fetchval("SELECT pg_is_in_recovery()"):
                where = hosts_of(self._url)
                return StoreStandby(f"PostgreSQL at {where} is a standby and takes no writes until it is promoted.")
        return None

    @asynccontextmanager
    async def _planned(self, connection: Any) -> AsyncIterator[PostgresTx]:
        """A transaction on this connection."""
        try:
            with translating():
                await connection.execute(self._sessions.begin(connection))
            yield PostgresTx(connection)
            with translating():
                await connection.execute("COMMIT")
        except BaseException:
            # Also after a cancelled BEGIN or COMMIT: the pool must not get back what is still open.
            with contextlib.suppress(Exception):
                if connection.is_in_transaction():
                    await connection.execute("ROLLBACK")
            raise

    async def _open(self) -> asyncpg.Pool[asyncpg.Record]:
        async with self._opening:
            if self._pool is None:
                with translating(), naming(self._url):
                    sessions = await look(self._url, self._connecting)
                    pool = await asyncpg.create_pool(
                        split_settings(self._url)[0],
                        min_size=0,
                        max_size=self._connecting.connections,
                        max_inactive_connection_lifetime=IDLE_S,
                        command_timeout=self._command_timeout_s,
                        init=sessions.set_up,
                        reset=_keep_session,
                        **sessions.arguments(),
                    )
                    async with pool.acquire() as connection:
                        await self._look_after(connection)
                self._sessions = sessions
                self._pool = pool
            return self._pool

    async def _look_after(self, connection: Any) -> float:
        """Compare the clocks, and end sessions of ours that stand still; return after how long to do it again."""
        before = self._clock.now_ms()
        row = await connection.fetchrow(LOOK_AFTER)
        if self._measured:
            self._offset_ms = correct_offset(self._offset_ms, before, self._clock.now_ms(), int(row["now"]))
        return min(CLOCK_EVERY_S, max(RECONNECT_S, float(row["limit_s"])))

    def _direct_url(self) -> str | None:
        """Where sessions last: the server's own address, if it was given."""
        listen_url = self._connecting.listen_url
        return None if listen_url is None else beside(self._url, listen_url)

    async def _listen(self) -> None:
        url = self._direct_url()
        while url is None and self._pool is None:  # whether there is a pooler is known once the pool is open
            try:
                await self._open()
            except StoreError:
                await asyncio.sleep(RECONNECT_S)
        if not self._connecting.listens or (url is None and self._sessions.is_lent):
            await self._notifications.poll(self._acquired)
        await self._notifications.listen(split_settings(url or self._url)[0])


class PostgresTx:
    dialect: Dialect = "postgres"

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._callbacks: list[Callable[[], None]] = []

    async def rows(self, statement: Statement, *, into: Any = None, **params: Any) -> Any:
        with translating():
            rows = await self.connection.fetch(statement.postgres, *[params[name] for name in statement.order])
        return name_rows(rows, into)

    async def load(self, table: str, columns: Sequence[str], pieces: Iterable[str]) -> None:
        async def encoded() -> AsyncIterator[bytes]:
            for piece in pieces:
                yield piece.encode()
                await asyncio.sleep(0)

        with translating():
            await self.connection.copy_to_table(table, columns=columns, source=encoded())

    async def notify(self, channel: str, *, to_all: bool = False) -> None:
        with translating():
            if channel.startswith(ADDRESSED) and not to_all:
                await self.connection.execute(_RING_ONE, LISTEN_CHANNEL, channel + TICKET)
            else:
                await self.connection.execute(_RING, LISTEN_CHANNEL, channel)

    def after_commit(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def run_callbacks(self) -> None:
        for callback in self._callbacks:
            callback()


class ReadingTx(PostgresTx):
    """Reads. `begin` begins a transaction for all that is read after the first statement."""

    def __init__(self, connection: Any, begin: Callable[[], Awaitable[object]]) -> None:
        super().__init__(connection)
        self._begin = begin
        self._statements = 0

    async def rows(self, statement: Statement, *, into: Any = None, **params: Any) -> Any:
        self._statements += 1
        if self._statements == 2:
            await self._begin()
        return await super().rows(statement, into=into, **params)


async def _keep_session(connection: Any) -> None:
    """Pooled connections keep no session state, so nothing needs resetting between uses (saves a round trip)."""

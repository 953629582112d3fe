"""PostgreSQL, for more than one machine. asyncpg, a pool, LISTEN/NOTIFY on a connection of its own.

Time is the database's: the offset to the local clock is measured when connecting and again now and then, so that all
workers share one timeline while `now` stays a parameter of every statement.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from holdfast.errors import StoreReadOnly, StoreStandby
from holdfast.stores.bells import Bells
from holdfast.stores.clock import Clock, SystemClock
from holdfast.stores.migration import PATIENCE, Applied, Patience
from holdfast.stores.postgres_errors import hosts_of, naming, place_of, translating
from holdfast.stores.postgres_migrate import CONNECT_TIMEOUT_S, Migrator, installed
from holdfast.stores.seam import Bell, Dialect, Row, Store
from holdfast.stores.statement import Migration, Statement

# Estimates for arrays and JSON are guesses; these keep claims and settles on their indexes at every table size.
PLANNER = {
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
    "jit": "off",
}
LISTEN_CHANNEL = "holdfast"
CLOCK_EVERY_S = 30.0
RECONNECT_S = 1.0
CLOSE_S = 2.0
# A process that stands still, or whose machine is gone, must not keep the rows it has locked: PostgreSQL ends its
# session. What the database or the role was given as the limit stands.
LIMIT_IDLE = """SELECT set_config('idle_in_transaction_session_timeout', '30s', false)
 WHERE current_setting('idle_in_transaction_session_timeout') = '0'"""
# PostgreSQL does not call a session idle while a statement is only half prepared, and the driver prepares in two
# messages: so every listener also looks for sessions of ours that have waited for their client for longer than that.
HANG_UP = """WITH allowed AS (SELECT CAST(current_setting('idle_in_transaction_session_timeout') AS interval) AS t),
stuck AS (
  SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity AS a, allowed
   WHERE a.datname = current_database() AND a.usename = current_user AND a.application_name = 'holdfast'
     AND a.wait_event = 'ClientRead' AND a.state = 'active' AND a.state_change < clock_timestamp() - allowed.t)
SELECT CAST(EXTRACT(EPOCH FROM t) AS FLOAT) AS limit_s, (SELECT COUNT(*) FROM stuck) AS ended FROM allowed"""


class PostgresStore:
    dialect: Dialect = "postgres"

    def __init__(
        self, url: str, *, clock: Clock | None = None, pool_max: int = 10, command_timeout_s: float = 30.0
    ) -> None:
        self._url = url
        self._clock = clock or SystemClock()
        self._measured = clock is None  # a clock that was brought along is trusted as it is
        self._pool_max = pool_max
        self._command_timeout_s = command_timeout_s
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._opening = asyncio.Lock()
        self._listener: asyncio.Task[None] | None = None
        self._bells = Bells()
        self._offset_ms = 0

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[PostgresTx]:
        async with self._acquired() as connection:
            try:
                with translating():
                    await connection.execute("BEGIN")
                tx = PostgresTx(connection)
                yield tx
                with translating():
                    await connection.execute("COMMIT")
            except BaseException:
                # Also after a cancelled BEGIN or COMMIT: the pool must not get back what is still open.
                with contextlib.suppress(Exception):
                    if connection.is_in_transaction():
                        await connection.execute("ROLLBACK")
                raise
        tx.tell()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[PostgresTx]:
        async with self._acquired() as connection:
            tx = PostgresTx(connection)
            yield tx
        tx.tell()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[PostgresTx]:
        async with self._acquired() as connection:
            yield PostgresTx(connection)

    def bell(self, channel: str) -> Bell:
        if self._listener is None:
            self._listener = asyncio.get_running_loop().create_task(self._listen())
        return self._bells.bell(channel)

    def now(self) -> int:
        return self._clock.now_ms() + self._offset_ms

    async def installed(self) -> list[Applied]:
        async with self.reading() as tx:
            with translating():
                return await installed(tx.connection)

    async def migrate(self, migrations: Sequence[Migration], patience: Patience = PATIENCE) -> list[str]:
        return await Migrator(self._url, patience).run(migrations)

    def spare(self) -> Store | None:
        clock = None if self._measured else self._clock
        return PostgresStore(self._url, clock=clock, pool_max=1, command_timeout_s=self._command_timeout_s)

    def place(self) -> str:
        return place_of(self._url)

    async def close(self) -> None:
        """Say goodbye to the server, within a limit: one that does not answer is left without."""
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.wait([self._listener], timeout=CLOSE_S)
            self._listener = None
        pool, self._pool = self._pool, None
        if pool is not None:
            with contextlib.suppress(TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                async with asyncio.timeout(CLOSE_S):
                    await pool.close()
            pool.terminate()

    def abandon(self) -> None:
        """Drop every connection as a dying process would: whatever was not committed is gone."""
        if self._listener is not None:
            self._listener.cancel()
            self._listener = None
        if self._pool is not None:
            self._pool.terminate()
            self._pool = None

    @asynccontextmanager
    async def _acquired(self) -> AsyncIterator[Any]:
        pool = self._pool or await self._open()
        with translating():
            connection = await pool.acquire(timeout=self._command_timeout_s)
        try:
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

    async def _open(self) -> asyncpg.Pool[asyncpg.Record]:
        async with self._opening:
            if self._pool is None:
                with translating(), naming(self._url):
                    pool = await asyncpg.create_pool(
                        self._url,
                        timeout=CONNECT_TIMEOUT_S,
                        min_size=1,
                        max_size=self._pool_max,
                        max_cached_statement_lifetime=0,
                        command_timeout=self._command_timeout_s,
                        server_settings=PLANNER | {"application_name": "holdfast"},
                        init=_limit_idle,
                        reset=_keep_session,
                    )
                    async with pool.acquire() as connection:
                        self._offset_ms = await self._measure(connection)
                self._pool = pool
            return self._pool

    async def _measure(self, connection: Any) -> int:
        if not self._measured:
            return 0
        before = self._clock.now_ms()
        theirs = await connection.fetchval("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)")
        return int(theirs) - (before + self._clock.now_ms()) // 2

    async def _listen(self) -> None:
        """Turn notifications into rings, for ever. After a lost connection every bell rings once."""
        while True:
            connection, lost = None, asyncio.Event()
            try:
                connection = await asyncpg.connect(self._url, timeout=10)
                await connection.add_listener(LISTEN_CHANNEL, self._on_notify)
                connection.add_termination_listener(lambda _, ended=lost: ended.set())
                await _limit_idle(connection)
                self._bells.ring_all()
                while not connection.is_closed():
                    self._offset_ms = await self._measure(connection)
                    limit_s = (await connection.fetchrow(HANG_UP))["limit_s"]
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(lost.wait(), min(CLOCK_EVERY_S, max(RECONNECT_S, limit_s)))
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await asyncio.sleep(RECONNECT_S)
            finally:
                if connection is not None:
                    connection.terminate()

    def _on_notify(self, connection: Any, pid: int, channel: str, payload: object) -> None:
        self._bells.ring(str(payload))


class PostgresTx:
    dialect: Dialect = "postgres"

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._tellers: list[Callable[[], None]] = []

    async def rows(self, statement: Statement, **params: Any) -> Sequence[Row]:
        with translating():
            rows: Sequence[Row] = await self.connection.fetch(
                statement.postgres, *[params[name] for name in statement.order]
            )
            return rows

    async def load(self, table: str, columns: Sequence[str], pieces: Iterable[str]) -> None:
        async def encoded() -> AsyncIterator[bytes]:
            for piece in pieces:
                yield piece.encode()
                await asyncio.sleep(0)

        with translating():
            await self.connection.copy_to_table(table, columns=columns, source=encoded())

    async def hint(self, channel: str) -> None:
        with translating():
            await self.connection.execute("SELECT pg_notify($1, $2)", LISTEN_CHANNEL, channel)

    def then(self, tell: Callable[[], None]) -> None:
        self._tellers.append(tell)

    def tell(self) -> None:
        for tell in self._tellers:
            tell()


async def _limit_idle(connection: Any) -> None:
    await connection.execute(LIMIT_IDLE)


async def _keep_session(connection: Any) -> None:
    """Pooled connections keep no session state, so nothing needs resetting between uses (saves a round trip)."""

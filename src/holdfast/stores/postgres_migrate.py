"""Brings a PostgreSQL schema forward beside a fleet that works.

A step is one transaction: it is there, recorded, or it is not, whenever the process is killed. A statement that changes
a table must wait until everybody who uses the table has committed, and whoever comes later waits behind it. So a step
waits for a moment only, gives way, and tries again; between two tries claims and enqueues go on. Steps marked
`-- concurrently` run outside a transaction, and block nobody. Whoever is waited for is named while it lasts.

One process at a time applies steps: an advisory lock, tried and never waited for, because a waiting statement has a
snapshot, and the building of an index waits for snapshots. It is the transaction's, so that poolers carry it.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import asyncpg

from holdfast.errors import StoreBusy, StoreForbidden, StoreUnavailable, forbidden
from holdfast.stores.connecting import split_settings
from holdfast.stores.migration import SCHEMA_TABLE, Applied, Patience, pending
from holdfast.stores.postgres_errors import naming, translating
from holdfast.stores.postgres_session import BEGIN, CONNECT_TIMEOUT_S, set_all
from holdfast.stores.statement import Migration, index_name

T = TypeVar("T")
MIGRATION_LOCK = 0x686F6C6466617374
LOOK_EVERY_S = 5.0
PAUSE_S_MIN, PAUSE_S_MAX = 0.1, 5.0
LOCK_MS_MIN = 10
_TABLE_WORDS = "TABLE|INDEX|ON|FROM|INTO|UPDATE|REFERENCES|VIEW"
_NAMES_TABLE = re.compile(rf"\b(?:{_TABLE_WORDS})\s+(?:CONCURRENTLY\s+)?(?:IF\s+(?:NOT\s+)?EXISTS\s+)?\"?(\w+)")
"""Tables, and indexes: to drop one is to wait for whoever uses its table, and so the index."""

_INSTALLED = """SELECT namespace, version, CAST(to_jsonb(s) ->> 'oldest' AS INTEGER) AS oldest
  FROM holdfast_schema AS s"""
_CLOSED = """SELECT n.nspname FROM pg_namespace AS n WHERE NOT has_schema_privilege(n.oid, 'USAGE') AND n.nspname IN
  (SELECT trim(BOTH ' "' FROM part) FROM unnest(string_to_array(current_setting('search_path'), ',')) AS part)"""
_RECORD = """INSERT INTO holdfast_schema (namespace, version, applied_at, oldest)
VALUES ($1, $2, CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT), $3)"""
_ADD_OLDEST = "ALTER TABLE holdfast_schema ADD COLUMN IF NOT EXISTS oldest INTEGER"
_INVALID = """SELECT c.relname FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
 WHERE NOT i.indisvalid AND c.relname = $1 AND c.relnamespace = to_regnamespace(current_schema())"""
_SESSIONS = """SELECT a.pid, a.application_name, a.usename, a.state,
       CAST(EXTRACT(EPOCH FROM clock_timestamp() - a.xact_start) AS FLOAT) AS age_s
  FROM pg_stat_activity AS a WHERE a.pid = ANY("""
_BLOCKING = _SESSIONS + "pg_blocking_pids($1))"
_USING = (
    _SESSIONS
    + """ARRAY(SELECT l.pid FROM pg_locks AS l WHERE l.granted AND l.pid <> $2
     AND l.relation IN (SELECT CAST(to_regclass(name) AS oid) FROM unnest(CAST($1 AS TEXT[])) AS name)))
 ORDER BY a.xact_start LIMIT 3"""
)
_MIGRATING = (
    _SESSIONS
    + """ARRAY(SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted
     AND ((CAST(classid AS BIGINT) << 32) | CAST(objid AS BIGINT)) = $1))"""
)


async def installed(connection: Any) -> list[Applied]:
    """The steps that the database has had; a table made before `oldest` was recorded is understood. Tables in a schema
    that this role may not enter are not missing: that is `StoreForbidden`."""
    if await connection.fetchval("SELECT to_regclass('holdfast_schema') IS NULL"):
        if closed := await connection.fetchval(_CLOSED):
            raise StoreForbidden(forbidden(f"permission denied for schema {closed}"))
        return []
    rows = await connection.fetch(_INSTALLED)
    return [Applied(row["namespace"], row["version"], row["oldest"]) for row in rows]


class Migrator:
    """One run of `migrate`, on connections of its own: an index may take hours to build."""

    def __init__(self, url: str, patience: Patience) -> None:
        self._url = url
        self._patience = patience
        self._holders = ""
        self._step: Migration | None = None
        self._onlooker: Any = None

    async def run(self, migrations: Sequence[Migration]) -> list[str]:
        """Apply what is pending, one step after the other; return the names of those that this run applied."""
        applied: list[str] = []
        with translating():
            async with self._connected() as connection, self._connected() as self._onlooker:
                while todo := pending(migrations, await self._patiently(partial(self._read, connection))):
                    self._step = todo[0]
                    apply = self._apply_outside if self._step.is_concurrent else self._apply
                    if await self._patiently(partial(apply, connection, self._step)):
                        applied.append(self._step.name)
        return applied

    async def _patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try until the locks are had; give up with a `StoreBusy` that names who holds them."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._patience.wait_s
        pause_s = PAUSE_S_MIN
        while True:
            try:
                return await attempt()
            except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
                waits = self._waits()
                if loop.time() >= give_up_at:
                    raise StoreBusy(
                        f"{waits}; nothing of it was written in {self._patience.wait_s:g} s of trying. End that "
                        "session, then run holdfast migrate again."
                    ) from None
                self._patience.report(f"{waits}; trying again.")
            await asyncio.sleep(min(pause_s, max(0.0, give_up_at - loop.time())))
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    def _waits(self) -> str:
        name = f" {self._step.name}" if self._step else ""
        return f"The migration{name} waits for a lock" + (self._holders and f" of {self._holders}")

    async def _read(self, connection: Any) -> list[Applied]:
        async with _transaction(connection):
            await self._bound(connection, self._patience.lock_s)
            try:
                return await installed(connection)
            except asyncpg.LockNotAvailableError:
                self._holders = await self._users(connection, "TABLE holdfast_schema")
                raise

    async def _apply(self, connection: Any, step: Migration) -> bool:
        """Apply the step in one transaction. False: another process has applied it meanwhile."""
        texts = step.statements("postgres")
        # The locks it has hold up others while it waits for the next: all its waits together stay below `lock_s`.
        lock_s = self._patience.lock_s / max(1, len(texts))
        async with _transaction(connection):
            await self._bound(connection, lock_s)
            await self._lock(connection)
            if _has(await installed(connection), step):
                return False
            for text in [*await self._table(connection), *texts]:
                await self._execute(connection, text, lock_s / 2)
            await connection.execute(_RECORD, step.namespace, step.version, step.oldest)
            return True

    async def _apply_outside(self, connection: Any, step: Migration) -> bool:
        """Apply a step of indexes, statement by statement; a second session's transaction holds the turn and records
        it. What a killed run left half-made is dropped and made again."""
        async with self._connected() as keeper, _transaction(keeper):
            await self._bound(keeper, self._patience.lock_s)
            await self._lock(keeper)
            if _has(await installed(keeper), step):
                return False
            # Sent by itself, without parameters: it also ends the last answer's portal, whose snapshot the building of
            # the index would wait for.
            await keeper.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            lasts = await connection.fetchval("SELECT pg_backend_pid()") == connection.get_server_pid()
            if lasts:  # a session that a pooler lends must not keep it for the next who gets it
                await connection.execute(f"SET lock_timeout = {max(1, int(1_000 * self._patience.wait_s))}")
            look_after_s = min(LOOK_EVERY_S, self._patience.wait_s / 2)
            try:
                for text in step.statements("postgres"):
                    for (name,) in await connection.fetch(_INVALID, index_name(text)):
                        half_made = f'DROP INDEX CONCURRENTLY IF EXISTS "{name}"'
                        await self._execute(connection, half_made, look_after_s)
                    await self._execute(connection, text, look_after_s)
            finally:
                if lasts and not connection.is_closed():
                    await connection.execute("RESET lock_timeout")
            for text in await self._table(keeper):
                await keeper.execute(text)
            await keeper.execute(_RECORD, step.namespace, step.version, step.oldest)
            return True

    async def _bound(self, connection: Any, lock_s: float) -> None:
        await connection.execute(f"SET LOCAL lock_timeout = {max(LOCK_MS_MIN, int(1_000 * lock_s))}")

    async def _lock(self, connection: Any) -> None:
        if not await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", MIGRATION_LOCK):
            self._holders = _sentence(await connection.fetch(_MIGRATING, MIGRATION_LOCK))
            raise asyncpg.LockNotAvailableError("another process migrates")

    async def _table(self, connection: Any) -> list[str]:
        """The statements that make the table of steps what it must be."""
        schemas = parse_qs(urlsplit(self._url).query).get("search_path", [])
        missing = [
            name for name in schemas if await connection.fetchval("SELECT to_regnamespace($1) IS NULL", f'"{name}"')
        ]
        return [*[f'CREATE SCHEMA IF NOT EXISTS "{name}"' for name in missing], SCHEMA_TABLE, _ADD_OLDEST]

    async def _execute(self, connection: Any, text: str, look_after_s: float) -> None:
        """Run a statement; while it takes its time, look whom it waits for, and say it if that lasts."""
        self._holders = ""
        pid = await connection.fetchval("SELECT pg_backend_pid()")  # a pooler's backend is not the one connected to
        running = asyncio.ensure_future(connection.execute(text))
        try:
            wait_s = look_after_s
            while not (await asyncio.wait({running}, timeout=wait_s))[0]:
                holders = _sentence(await self._onlooker.fetch(_BLOCKING, pid))
                self._holders = holders or self._holders
                if holders and wait_s == LOOK_EVERY_S:
                    self._patience.report(f"{self._waits()}.")
                wait_s = LOOK_EVERY_S
            await running
        except asyncpg.LockNotAvailableError:  # a wait of a hundredth may be over before it was looked at
            self._holders = self._holders or await self._users(connection, text)
            raise
        finally:
            running.cancel()

    async def _users(self, connection: Any, text: str) -> str:
        """Who uses the tables of a statement, those with the oldest transactions first."""
        pid = connection.get_server_pid()
        return _sentence(await self._onlooker.fetch(_USING, _NAMES_TABLE.findall(text), pid))

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        with naming(self._url):
            plain, own = split_settings(self._url)
            connection = await asyncpg.connect(
                plain,
                timeout=CONNECT_TIMEOUT_S,
                statement_cache_size=0,  # a pooler may lend another session for the next statement
                server_settings={"application_name": "holdfast migrate"},
            )
        try:
            await self._set_up(connection, own)
            yield connection
        finally:
            with contextlib.suppress(Exception):
                await connection.close(timeout=CONNECT_TIMEOUT_S)

    async def _set_up(self, connection: Any, own: Sequence[tuple[str, str]]) -> None:
        if not own:
            return
        if await connection.fetchval("SELECT pg_backend_pid()") != connection.get_server_pid():
            raise StoreUnavailable(
                f"A migration needs a session that lasts, to set '{own[0][0]}' as the database URL asks; name "
                "PostgreSQL's own address in HOLDFAST_LISTEN_URL."
            )
        await connection.execute("; ".join(set_all(own, "false")))


@asynccontextmanager
async def _transaction(connection: Any) -> AsyncIterator[None]:
    await connection.execute(BEGIN)
    try:
        yield
        await connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(Exception):
            await connection.execute("ROLLBACK")
        raise


def _has(applied: Sequence[Applied], step: Migration) -> bool:
    return any((one.namespace, one.version) == (step.namespace, step.version) for one in applied)


def _sentence(sessions: Sequence[Any]) -> str:
    """Who holds a lock, for a person who must end that session: the process, whose it is, and since when."""
    return " and ".join(
        f"process {row['pid']} ({row['application_name'] or 'no application name'}, user {row['usename']}, "
        f"{row['state'] or 'state not shown'}"
        + (f", in a transaction for {row['age_s']:.0f} s)" if row["age_s"] is not None else ")")
        for row in sessions
    )

"""Enqueues inside the caller's own open transaction, whatever library holds it.

Works with sqlite3, aiosqlite, psycopg (sync and async), asyncpg, and SQLAlchemy connections and sessions (sync and
async). Nothing is committed here: the job exists if and only if the caller commits.

    enqueue(connection, SendDigest, order, key="digest:17")            # a sync connection: done when it returns
    await enqueue(session, SendDigest, order, key="digest:17")         # an async one: await it
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Generator, Sequence
from functools import lru_cache
from typing import Any

from holdfast.errors import InvalidInput, SchemaMismatch
from holdfast.kernel.app import Job
from holdfast.kernel.submit import prepare, submit_in
from holdfast.stores.clock import SystemClock, SystemDice, uuid7
from holdfast.stores.seam import Dialect, Row
from holdfast.stores.statement import Statement

_clock = SystemClock()
_dice = SystemDice()
_MISSING_TABLE = re.compile(r'no such table: holdfast_|relation "holdfast_\w+" does not exist')


class Enqueued:
    """The answer of `enqueue`: a job id, at once for a sync connection, by awaiting for an async one."""

    def __init__(self, work: Coroutine[Any, Any, str], *, sync: bool) -> None:
        self._work: Coroutine[Any, Any, str] | None = work
        self._id: str | None = None
        if sync:
            self._id = _finish(work)
            self._work = None

    @property
    def id(self) -> str:
        if self._id is None:
            raise InvalidInput("This enqueue is on an async connection; await it before asking for its id.")
        return self._id

    def __await__(self) -> Generator[Any, Any, str]:
        if self._work is not None:
            work, self._work = self._work, None
            self._id = yield from work.__await__()
        return self.id

    def __str__(self) -> str:
        return self.id


def enqueue(connection: Any, job: type[Job[Any]], input: object, **options: Any) -> Enqueued:
    """Write the job in the connection's open transaction.

    Options: key (the same key and payload is the same job; another payload is an `IdempotencyConflict`), delay_s,
    priority, deadline_s, owner, trace."""
    tx = foreign_tx(connection)
    now = _clock.now_ms()
    order = prepare(job.__holdfast__, input, job_id=uuid7(now, _dice), now=now, **options)

    async def write() -> str:
        return (await submit_in(tx, [order], now))[0]

    return Enqueued(write(), sync=not tx.is_async)


def _finish(work: Coroutine[Any, Any, str]) -> str:
    """Run a coroutine that never waits, because everything it awaits answers at once."""
    try:
        work.send(None)
    except StopIteration as done:
        return str(done.value)
    raise AssertionError("a sync connection cannot wait")


class ForeignTx:
    """Somebody else's transaction, seen through the store's seam."""

    def __init__(self, dialect: Dialect, is_async: bool, run: Callable[[Statement, dict[str, Any]], Any]) -> None:
        self.dialect: Dialect = dialect
        self.is_async = is_async
        self._run = run

    async def rows(self, statement: Statement, **params: Any) -> Sequence[Row]:
        try:
            answer = self._run(statement, params)
            return await answer if self.is_async else answer  # type: ignore[no-any-return]
        except Exception as error:  # each library has its own; all of them carry the database's words
            if _MISSING_TABLE.search(str(error)):
                raise SchemaMismatch(
                    "This connection's database has no Holdfast tables; run holdfast migrate."
                ) from error
            raise

    async def hint(self, channel: str) -> None:
        """PostgreSQL's statements notify by themselves; a foreign SQLite connection is found by polling."""

    def then(self, tell: Callable[[], None]) -> None:
        """Nobody tells us when the caller commits."""


@lru_cache(maxsize=64)
def _modules(kind: type[object]) -> frozenset[str]:
    """The libraries that a class and its bases come from."""
    return frozenset(base.__module__.partition(".")[0] for base in kind.__mro__)


def foreign_tx(connection: Any) -> ForeignTx:
    """Recognise a connection by the library it comes from, without importing any of them."""
    modules = _modules(type(connection))  # type: ignore[arg-type]  # mypy takes a class's __hash__ for its instances'
    if "sqlalchemy" in modules:
        return _sqlalchemy(connection, "asyncio" in type(connection).__module__ or hasattr(connection, "run_sync"))
    if "asyncpg" in modules:
        return ForeignTx("postgres", True, lambda s, p: connection.fetch(s.postgres, *[p[name] for name in s.order]))
    if "psycopg" in modules:
        is_async = "Async" in type(connection).__name__
        return ForeignTx("postgres", is_async, _psycopg_async(connection) if is_async else _psycopg(connection))
    if "sqlite3" in modules:
        return ForeignTx("sqlite", False, lambda s, p: _named(connection.execute(s.sqlite, p)))
    if "aiosqlite" in modules:
        return ForeignTx("sqlite", True, _aiosqlite(connection))
    raise InvalidInput(
        f"enqueue cannot write through a {type(connection).__module__}.{type(connection).__name__}; give it a "
        "connection or session of sqlite3, aiosqlite, psycopg, asyncpg or SQLAlchemy."
    )


def _named(cursor: Any) -> list[Any]:
    """Rows by column name, whatever row factory the caller has set."""
    if cursor.description is None:
        return []
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, tuple(row), strict=True)) for row in cursor.fetchall()]


def _pyformat(statement: Statement) -> str:
    text = statement.postgres.replace("%", "%%")
    for number in range(len(statement.order), 0, -1):
        text = text.replace(f"${number}", f"%({statement.order[number - 1]})s")
    return text.replace("jsonb_each(%(batch)s)", "jsonb_each(CAST(%(batch)s AS jsonb))")


def _psycopg(connection: Any) -> Callable[[Statement, dict[str, Any]], Any]:
    def run(statement: Statement, params: dict[str, Any]) -> Any:
        from psycopg.rows import dict_row

        with connection.cursor(row_factory=dict_row) as cursor:
            cursor.execute(_pyformat(statement), params)
            return cursor.fetchall() if cursor.description else []

    return run


def _psycopg_async(connection: Any) -> Callable[[Statement, dict[str, Any]], Any]:
    async def run(statement: Statement, params: dict[str, Any]) -> Any:
        from psycopg.rows import dict_row

        async with connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(_pyformat(statement), params)
            return await cursor.fetchall() if cursor.description else []

    return run


def _aiosqlite(connection: Any) -> Callable[[Statement, dict[str, Any]], Any]:
    async def run(statement: Statement, params: dict[str, Any]) -> Any:
        cursor = await connection.execute(statement.sqlite, params)
        names = [column[0] for column in cursor.description or ()]
        rows = await cursor.fetchall() if names else []
        await cursor.close()
        return [dict(zip(names, tuple(row), strict=True)) for row in rows]

    return run


def _sqlalchemy(connection: Any, is_async: bool) -> ForeignTx:
    import sqlalchemy

    bind = connection.get_bind() if hasattr(connection, "get_bind") else connection
    dialect: Dialect = "sqlite" if bind.dialect.name == "sqlite" else "postgres"
    if bind.dialect.name not in ("sqlite", "postgresql"):
        raise InvalidInput(f"enqueue works on SQLite and PostgreSQL; this session is on {bind.dialect.name}.")

    def prepared(statement: Statement) -> Any:
        if dialect == "sqlite":
            return sqlalchemy.text(statement.sqlite)
        text = statement.postgres.replace(":", "\\:")
        for number in range(len(statement.order), 0, -1):
            text = text.replace(f"${number}", f":{statement.order[number - 1]}")
        return sqlalchemy.text(text.replace("jsonb_each(:batch)", "jsonb_each(CAST(:batch AS jsonb))"))

    def rows(result: Any) -> Any:
        return result.mappings().all() if result.returns_rows else []

    if not is_async:
        return ForeignTx(dialect, False, lambda s, p: rows(connection.execute(prepared(s), p)))

    async def run(statement: Statement, params: dict[str, Any]) -> Any:
        return rows(await connection.execute(prepared(statement), params))

    return ForeignTx(dialect, True, run)

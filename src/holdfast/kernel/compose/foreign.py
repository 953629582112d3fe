"""Somebody else's open transaction: recognised by the library it comes from, without importing any of them.

sqlite3, aiosqlite, psycopg (sync and async), asyncpg, SQLAlchemy's connections and sessions (sync and async), Django's
connections. What has no transaction that the caller could roll back is refused: an engine, a pool, a cursor, a
connection that commits every statement by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from holdfast.errors import InvalidInput, SchemaMismatch, StoreError, StoreForbidden, StoreReadOnly, forbidden
from holdfast.stores.seam import DIALECTS, Dialect, name_rows
from holdfast.stores.statement import JSON_PARAMETER, Statement

_MISSING_TABLE = re.compile(r'no such table: holdfast_|relation "(\w+\.)?holdfast_\w+" does not exist')
_REFUSED = re.compile(r"permission denied for (table|relation|schema) \w+")
_TABLE = re.compile(r"(?<![\w.'])(holdfast_[a-z_]+)")


class ForeignTx:
    """Somebody else's transaction, seen through the store's seam."""

    def __init__(self, dialect: Dialect, is_async: bool, run: Callable[[Statement, dict[str, Any]], Any]) -> None:
        self.dialect: Dialect = dialect
        self.is_async = is_async
        self.schema: str | None = None
        self._run = run
        self._callbacks: list[Callable[[], None]] = []

    async def rows(self, statement: Statement, *, into: Any = None, **params: Any) -> Any:
        try:
            answer = self._run(statement if self.schema is None else _qualified(statement, self.schema), params)
            return name_rows(await answer if self.is_async else answer, into)
        except Exception as error:  # each library has its own; all of them carry the database's words
            raise _translated(error, self.schema) or error from error

    async def notify(self, channel: str, *, to_all: bool = False) -> None:
        """PostgreSQL's statements notify by themselves; a foreign SQLite connection is found by polling."""

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Kept for `committed`. Where the caller commits, nobody hears of it, and they are not called."""
        self._callbacks.append(callback)

    def committed(self) -> None:
        """Call what was to be called after the commit, once."""
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


def _translated(error: Exception, schema: str | None) -> StoreError | None:
    """What the database refuses for want of tables or of a right, in our words; None for all else."""
    text, where = str(error), f" in the schema '{schema}'" if schema else ""
    if _MISSING_TABLE.search(text):
        return SchemaMismatch(f"This connection's database has no Holdfast tables{where}; run holdfast migrate.")
    refused = _REFUSED.search(text)
    if refused is not None:
        return StoreForbidden(forbidden(refused.group()))
    if "current transaction is aborted" in text:
        return StoreError(
            "A statement before this failed in this connection's transaction; roll it back and begin again."
        )
    if "read-only transaction" in text or "readonly database" in text:
        return StoreReadOnly("This connection is read-only, so that no job can be enqueued on it.")
    return None


@lru_cache(maxsize=256)
def _qualified(statement: Statement, schema: str) -> Statement:
    """The statement with its tables named in their schema, for a connection that looks elsewhere."""
    return replace(statement, postgres=_TABLE.sub(rf"{schema}.\1", statement.postgres))


@lru_cache(maxsize=64)
def _libraries(kind: type[object]) -> frozenset[str]:
    """The libraries that a class and its bases come from."""
    return frozenset(base.__module__.partition(".")[0] for base in kind.__mro__)


def foreign_tx(connection: Any, schema: str | None = None, *, autocommit: bool = False) -> ForeignTx:
    """The transaction that is open on a connection; Holdfast's tables are in `schema`, or where the connection looks.
    `autocommit`: the caller knows that there is none."""
    connection = unscoped(connection)
    libraries = _libraries(type(connection))  # type: ignore[arg-type]  # mypy takes a class's __hash__ for its instances'
    for library, (recognise, is_open) in LIBRARIES.items():
        if library in libraries:
            tx = recognise(connection)
            tx.schema = schema
            if not autocommit and not is_open(connection):
                raise InvalidInput(_no_transaction(connection))
            return tx
    way_out = "give it a connection or session of sqlite3, aiosqlite, psycopg, asyncpg, SQLAlchemy or Django"
    if hasattr(connection, "enqueue"):
        way_out = "it enqueues by itself, in a commit of its own: client.enqueue(Job, input)"
    elif "holdfast" in libraries:
        way_out = "start a job with ctx.spawn(Job, input) in a stage, and with tx.enqueue(Job, input) in a hook"
    raise InvalidInput(f"Holdfast cannot write through a {name_of(connection)}; {way_out}.")


def unscoped(connection: Any) -> Any:
    """The session that a `scoped_session` of SQLAlchemy (the `db.session` of Flask) stands for; all else as it is."""
    registry = getattr(connection, "registry", None) if type(connection).__name__.endswith("scoped_session") else None
    return connection if registry is None else registry()


def library_of(connection: object) -> str:
    """The library that a connection or session comes from, which `foreign_tx` has recognised."""
    libraries = _libraries(type(connection))  # type: ignore[arg-type]
    return next(library for library in LIBRARIES if library in libraries)


def commits_itself(connection: Any) -> bool:
    """Whether each statement on it is committed by itself, for want of a transaction."""
    return not LIBRARIES[library_of(connection)][1](connection)


def _no_transaction(connection: object) -> str:
    is_pool = hasattr(connection, "acquire")
    begin = "take a connection of it with acquire() and begin one on that" if is_pool else "begin one"
    return (
        f"This {name_of(connection)} has no open transaction, so that the job would be committed at once, whatever "
        f"becomes of your own writes; {begin} first, or say autocommit=True if that is what you want."
    )


def _not_a_connection(thing: object, way_out: str) -> InvalidInput:
    return InvalidInput(f"A connection or session is needed here, not a {name_of(thing)}: {way_out}.")


def name_of(thing: object) -> str:
    library = type(thing).__module__.partition(".")[0]
    return type(thing).__name__ if library == "builtins" else f"{library}.{type(thing).__name__}"


def _asyncpg(connection: Any) -> ForeignTx:
    if not hasattr(connection, "fetch"):
        raise _not_a_connection(connection, "give it the connection that was acquired, with a transaction begun on it")
    return ForeignTx("postgres", True, lambda s, p: connection.fetch(s.postgres, *[p[name] for name in s.order]))


def _asyncpg_is_open(connection: Any) -> bool:
    """A pool takes a connection for each statement: nothing is open on it."""
    return hasattr(connection, "is_in_transaction") and bool(connection.is_in_transaction())


def _psycopg(connection: Any) -> ForeignTx:
    if not hasattr(connection, "cursor"):
        raise _not_a_connection(connection, "give it the connection that the cursor is of")
    is_async = "Async" in type(connection).__name__
    return ForeignTx("postgres", is_async, _psycopg_async(connection) if is_async else _psycopg_sync(connection))


def _psycopg_is_open(connection: Any) -> bool:
    """Without autocommit the first statement begins one."""
    return not connection.autocommit or connection.info.transaction_status.name != "IDLE"


def _sqlite3(connection: Any) -> ForeignTx:
    if not hasattr(connection, "cursor"):
        raise _not_a_connection(connection, "give it the connection that the cursor is of")
    return ForeignTx("sqlite", False, lambda s, p: _named(connection.execute(s.sqlite, p)))


def _aiosqlite(connection: Any) -> ForeignTx:
    if not hasattr(connection, "cursor"):
        raise _not_a_connection(connection, "give it the connection that the cursor is of")
    return ForeignTx("sqlite", True, _aiosqlite_run(connection))


def _sqlite_is_open(connection: Any) -> bool:
    """With an isolation level the first write begins one."""
    by_itself = connection.isolation_level is None or autocommit_of(connection) is True
    return bool(connection.in_transaction) or not by_itself


def autocommit_of(connection: Any) -> Any:
    """What sqlite3 has since Python 3.12. That of an aiosqlite connection may be asked in its own thread only."""
    return getattr(connection, "autocommit", None)


def _named(cursor: Any) -> list[Any]:
    """Rows by column name, whatever row factory the caller has set."""
    if cursor.description is None:
        return []
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, map(_as_text, row), strict=True)) for row in cursor.fetchall()]


def _as_text(value: Any) -> Any:
    """Texts are texts, also where the caller's connection gives them as bytes."""
    return value.decode() if isinstance(value, bytes) else value


def _pyformat(statement: Statement) -> str:
    text = statement.postgres.replace("%", "%%")
    for number in range(len(statement.order), 0, -1):
        text = text.replace(f"${number}", f"%({statement.order[number - 1]})s")
    return JSON_PARAMETER.sub(r"jsonb_each(CAST(\1 AS jsonb))", text)


def _refuse_pipeline(connection: Any) -> None:
    if connection.pgconn.pipeline_status:
        raise InvalidInput("This connection is in pipeline mode, where no answer is known yet; enqueue outside of it.")


def _psycopg_sync(connection: Any) -> Callable[[Statement, dict[str, Any]], Any]:
    def run(statement: Statement, params: dict[str, Any]) -> Any:
        from psycopg import Cursor
        from psycopg.rows import dict_row

        _refuse_pipeline(connection)
        with Cursor(connection, row_factory=dict_row) as cursor:  # whatever cursors the caller's connection makes
            cursor.execute(_pyformat(statement), params)
            return cursor.fetchall() if cursor.description else []

    return run


def _psycopg_async(connection: Any) -> Callable[[Statement, dict[str, Any]], Any]:
    async def run(statement: Statement, params: dict[str, Any]) -> Any:
        from psycopg import AsyncCursor
        from psycopg.rows import dict_row

        _refuse_pipeline(connection)
        async with AsyncCursor(connection, row_factory=dict_row) as cursor:
            await cursor.execute(_pyformat(statement), params)
            return await cursor.fetchall() if cursor.description else []

    return run


def _aiosqlite_run(connection: Any) -> Callable[[Statement, dict[str, Any]], Any]:
    async def run(statement: Statement, params: dict[str, Any]) -> Any:
        cursor = await connection.execute(statement.sqlite, params)
        names = [column[0] for column in cursor.description or ()]
        rows = await cursor.fetchall() if names else []
        await cursor.close()
        return [dict(zip(names, tuple(row), strict=True)) for row in rows]

    return run


def _sqlalchemy(connection: Any) -> ForeignTx:
    import sqlalchemy

    if not hasattr(connection, "execute") or not hasattr(connection, "in_transaction"):
        raise _not_a_connection(connection, "give it the connection of engine.begin(), or an open session")
    is_async = "asyncio" in type(connection).__module__ or hasattr(connection, "run_sync")
    bind = _bind(connection)
    dialect = DIALECTS.get(bind.dialect.name)
    if dialect is None:
        raise InvalidInput(f"enqueue works on SQLite and PostgreSQL; this session is on {bind.dialect.name}.")

    def prepared(statement: Statement) -> Any:
        return sqlalchemy.text(statement.named_text(dialect))

    def rows(result: Any) -> Any:
        return result.mappings().all() if result.returns_rows else []

    if not is_async:
        return ForeignTx(dialect, False, lambda s, p: rows(connection.execute(prepared(s), p)))

    async def run(statement: Statement, params: dict[str, Any]) -> Any:
        return rows(await connection.execute(prepared(statement), params))

    return ForeignTx(dialect, True, run)


def _bind(connection: Any) -> Any:
    """The engine or connection behind a session."""
    return connection.get_bind() if hasattr(connection, "get_bind") else connection


def _sqlalchemy_is_open(connection: Any) -> bool:
    """The first statement begins one, unless the connection or its engine is in autocommit."""
    bind = _bind(connection)
    bind = getattr(bind, "sync_connection", None) or bind
    level = bind.get_execution_options().get("isolation_level")
    return (level or getattr(bind.dialect, "_on_connect_isolation_level", None)) != "AUTOCOMMIT"


def _django(connection: Any) -> ForeignTx:
    """`django.db.connection`, or one of `django.db.connections`, over any of its PostgreSQL drivers."""
    if connection.vendor not in ("sqlite", "postgresql"):
        raise InvalidInput(f"enqueue works on SQLite and PostgreSQL; this connection is to {connection.vendor}.")
    if connection.vendor == "sqlite":
        # Asked for late: Django may replace the connection inside until a transaction is begun.
        return ForeignTx("sqlite", False, lambda s, p: _named(connection.connection.execute(s.sqlite, p)))

    def run(statement: Statement, params: dict[str, Any]) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(_pyformat(statement), params)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()] if names else []

    return ForeignTx("postgres", False, run)


LIBRARIES: dict[str, tuple[Callable[[Any], ForeignTx], Callable[[Any], bool]]] = {
    "sqlalchemy": (_sqlalchemy, _sqlalchemy_is_open),
    "asyncpg": (_asyncpg, _asyncpg_is_open),
    "psycopg": (_psycopg, _psycopg_is_open),
    "sqlite3": (_sqlite3, _sqlite_is_open),
    "django": (_django, lambda connection: bool(connection.in_atomic_block)),
    "aiosqlite": (_aiosqlite, _sqlite_is_open),
}

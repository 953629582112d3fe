"""What PostgreSQL's driver raises means what the kernel acts on: wait, try again, snooze, or a defect."""

from __future__ import annotations

from uuid import uuid4

import asyncpg
import psycopg
import pytest
from psycopg import sql

from holdfast.errors import (
    SchemaMismatch,
    StoreBusy,
    StoreConflict,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres_errors import translating


@pytest.mark.spec("K19", "K28")
@pytest.mark.parametrize(
    ("raised", "meant"),
    [
        (asyncpg.DiskFullError("no space left"), StoreFull),
        (asyncpg.SerializationError("again"), StoreBusy),
        (asyncpg.DeadlockDetectedError("again"), StoreBusy),
        (asyncpg.QueryCanceledError("too long"), StoreBusy),
        (asyncpg.ReadOnlySQLTransactionError("standby"), StoreReadOnly),
        (asyncpg.AdminShutdownError("stopping"), StoreUnavailable),
        (asyncpg.TooManyConnectionsError("full"), StoreUnavailable),
        (ConnectionResetError(), StoreUnavailable),
        (asyncpg.InvalidPasswordError("no"), StoreUnavailable),
        (asyncpg.InvalidCatalogNameError("no such database"), StoreUnavailable),
        (asyncpg.UniqueViolationError("twice"), StoreConflict),
        (asyncpg.UndefinedTableError('relation "holdfast_jobs" does not exist'), SchemaMismatch),
        (asyncpg.UndefinedTableError('relation "mine" does not exist'), StoreError),
        (asyncpg.PostgresSyntaxError("what?"), StoreError),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_an_error_of_the_driver_is_one_of_ours(raised: Exception, meant: type[StoreError]) -> None:
    with pytest.raises(StoreError) as caught, translating():
        raise raised
    assert type(caught.value) is meant


@pytest.mark.slow
@pytest.mark.spec("K28")
@pytest.mark.parametrize(
    ("rights", "query", "cause"),
    [
        ("LOGIN CONNECTION LIMIT 0", "", "no connection left: too many connections for role"),
        ("NOLOGIN", "", "refused the connection: role .* is not permitted to log in"),
        ("LOGIN", "?enable_magic=1", 'refused the connection: unrecognized configuration parameter "enable_magic"'),
    ],
    ids=["full", "no login", "parameter"],
)
async def test_why_no_connection_is_to_be_had_is_named(postgres_url: str, rights: str, query: str, cause: str) -> None:
    role = f"clerk_{uuid4().hex[:8]}"
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE ROLE {} " + rights).format(sql.Identifier(role)))
        store = PostgresStore(postgres_url.replace("holdfast@", f"{role}@") + query)
        try:
            with pytest.raises(StoreUnavailable, match=cause) as caught:
                await store.installed()
            assert "a write may have happened" not in str(caught.value)
        finally:
            await store.close()
            admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))

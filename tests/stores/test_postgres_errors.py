"""What PostgreSQL's driver raises means what the kernel acts on: wait, try again, snooze, or a defect."""

from __future__ import annotations

import asyncpg
import pytest

from holdfast.errors import (
    SchemaMismatch,
    StoreBusy,
    StoreConflict,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
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

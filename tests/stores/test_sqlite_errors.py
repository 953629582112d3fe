"""What SQLite refuses means what the kernel acts on, whatever names and values its words hold."""

from __future__ import annotations

import sqlite3

import pytest

from holdfast.errors import (
    StoreBusy,
    StoreConflict,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from holdfast.stores.sqlite import _translated

TABLE = "CREATE TABLE busy (locked INTEGER UNIQUE, full_name TEXT NOT NULL, readonly INTEGER CHECK (readonly > 0))"


@pytest.mark.spec("K19", "K28")
@pytest.mark.parametrize(
    ("statement", "meant"),
    [
        ("INSERT INTO busy VALUES (2, NULL, 1)", StoreError),
        ("INSERT INTO busy VALUES (1, 'a', 1)", StoreConflict),
        ("INSERT INTO busy VALUES (2, 'a', 0)", StoreError),
        ("SELECT json('NaN')", StoreError),
        ("SELECT disk FROM busy", StoreError),
    ],
)
def test_a_refused_statement_is_no_outage(statement: str, meant: type[StoreError]) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute(TABLE)
    connection.execute("INSERT INTO busy VALUES (1, 'a', 1)")
    with pytest.raises(sqlite3.Error) as caught:
        connection.execute(statement).fetchall()
    assert type(_translated(caught.value, "a.db")) is meant


@pytest.mark.spec("K19", "K28")
@pytest.mark.parametrize(
    ("code", "meant"),
    [
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreBusy),
        (sqlite3.SQLITE_LOCKED, StoreBusy),
        (sqlite3.SQLITE_READONLY_DBMOVED, StoreReadOnly),
        (sqlite3.SQLITE_FULL, StoreFull),
        (sqlite3.SQLITE_IOERR_WRITE, StoreFull),
        (sqlite3.SQLITE_CANTOPEN, StoreUnavailable),
        (sqlite3.SQLITE_NOTADB, StoreUnavailable),
        (sqlite3.SQLITE_CORRUPT, StoreUnavailable),
        (sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, StoreConflict),
    ],
)
def test_a_code_says_what_is_the_matter(code: int, meant: type[StoreError]) -> None:
    error = sqlite3.OperationalError("in other words")
    error.sqlite_errorcode = code
    assert type(_translated(error, "a.db")) is meant

"""The playground's own book, in a file that no system writes to: which jobs were accepted, and what providers were seen
to do. The account is true only if two books agree, and this is the second one."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import StoreUnavailable

RECEIPTS_MAX = 5_000
"""The account is of so many jobs, the newest ones."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS receipts (seq INTEGER PRIMARY KEY, system TEXT NOT NULL, job_id TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS deliveries (seq INTEGER PRIMARY KEY, effect TEXT NOT NULL, provider_id TEXT NOT NULL,
                                       UNIQUE (effect, provider_id));
"""


@dataclass(frozen=True, slots=True)
class Entries:
    """What the book holds: ids of accepted jobs by system, effects that providers performed, and those done twice."""

    receipts: dict[str, list[str]]
    deliveries: int
    twice: int


class Book:
    """One file, one connection, used from any thread. Every entry is on disk when the call returns."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        try:
            self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.executescript(_SCHEMA)
        except sqlite3.Error as error:
            hint = "free space, fix permissions, or remove that file"
            raise StoreUnavailable(f"Cannot open the playground's book {path}: {error}; {hint}.") from error

    def accept(self, system: str, job_ids: Iterable[str]) -> None:
        """Note jobs whose acceptance a caller was told of."""
        rows = [(system, job_id) for job_id in job_ids]
        with self._lock:
            self._connection.executemany("INSERT OR IGNORE INTO receipts (system, job_id) VALUES (?, ?)", rows)

    def deliver(self, effect: str, provider_id: str) -> None:
        """Note that a provider has performed an effect, under an id of its own. The same id again is the same act."""
        with self._lock:
            statement = "INSERT OR IGNORE INTO deliveries (effect, provider_id) VALUES (?, ?)"
            self._connection.execute(statement, (effect, provider_id))

    def delivered(self, effect: str) -> str | None:
        """The provider's id of an effect that it performed; None if it never did."""
        with self._lock, closing(self._connection.cursor()) as cursor:
            cursor.execute("SELECT provider_id FROM deliveries WHERE effect = ? ORDER BY seq LIMIT 1", (effect,))
            row = cursor.fetchone()
        return None if row is None else str(row[0])

    def read(self) -> Entries:
        """The newest receipts, and all deliveries."""
        with self._lock, closing(self._connection.cursor()) as cursor:
            cursor.execute("SELECT system, job_id FROM receipts ORDER BY seq DESC LIMIT ?", (RECEIPTS_MAX,))
            receipts: dict[str, list[str]] = {}
            for system, job_id in cursor.fetchall():
                receipts.setdefault(system, []).append(job_id)
            cursor.execute("SELECT COUNT(*), COUNT(*) - COUNT(DISTINCT effect) FROM deliveries")
            deliveries, twice = cursor.fetchone()
        return Entries(receipts, deliveries, twice)

    def forget(self) -> None:
        """Begin a new account."""
        with self._lock:
            self._connection.executescript("DELETE FROM receipts; DELETE FROM deliveries;")

    def close(self) -> None:
        with self._lock:
            self._connection.close()

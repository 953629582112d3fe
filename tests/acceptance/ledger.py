"""A provider that many processes really share: an SQLite file of its own, outside the kernel's database.

It writes down every send, and every effect that came of one. With `token` a second send of the same token makes no
second effect; with `lookup` and `neither` each send makes one. So effects are counted where they happen.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from pathlib import Path

_TABLES = """
CREATE TABLE IF NOT EXISTS sends (id INTEGER PRIMARY KEY, provider TEXT, token TEXT, pid INTEGER);
CREATE TABLE IF NOT EXISTS effects (id INTEGER PRIMARY KEY, provider TEXT, token TEXT);
CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, note TEXT);
"""
WAIT_S = 30.0


class Ledger:
    """One process's connection to the provider."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._connection: sqlite3.Connection | None = None

    def send(self, provider: str, token: str, *, dedupe: bool) -> str:
        """Do what is asked, once more or (with `dedupe`) once; return the provider's id of it."""
        connection = self._open()
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                "INSERT INTO sends (provider, token, pid) VALUES (?, ?, ?)", (provider, token, os.getpid())
            )
            known = self.find(provider, token) if dedupe else None
            if known is not None:
                return known
            made = connection.execute("INSERT INTO effects (provider, token) VALUES (?, ?)", (provider, token))
            return f"{provider}-{made.lastrowid}"

    def find(self, provider: str, token: str) -> str | None:
        """The id of the first effect under this token."""
        asked = "SELECT MIN(id) FROM effects WHERE provider = ? AND token = ?"
        (found,) = self._open().execute(asked, (provider, token)).fetchone()
        return None if found is None else f"{provider}-{found}"

    def sends(self, provider: str | None = None) -> Counter[tuple[str, str]]:
        return self._count("sends", provider)

    def effects(self, provider: str | None = None) -> Counter[tuple[str, str]]:
        return self._count("effects", provider)

    def note(self, text: str) -> None:
        """Something that happened in a handler, for the test to see."""
        with self._open() as connection:
            connection.execute("INSERT INTO notes (note) VALUES (?)", (text,))

    def notes(self) -> list[str]:
        return [note for (note,) in self._open().execute("SELECT note FROM notes ORDER BY id")]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _count(self, table: str, provider: str | None) -> Counter[tuple[str, str]]:
        rows = self._open().execute(f"SELECT provider, token FROM {table}").fetchall()
        return Counter((name, token) for name, token in rows if provider in (None, name))

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = sqlite3.connect(self.path, timeout=WAIT_S, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = OFF")  # killed processes, not lost power
            self._connection.executescript(_TABLES)
        return self._connection

"""The simulator on PostgreSQL: the same seeds, hosts, faults and checker, with the statements that production runs.

A server has no virtual time, so every statement runs to its end while the simulation stands still; and since nobody
could release a lock meanwhile, one host writes at a time, as on SQLite. What this ring adds is the other text of every
statement, PostgreSQL's own visibility inside it, and its types. The triggers that tell what happened are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import psycopg
from psycopg.adapt import Dumper
from psycopg.rows import RowMaker
from psycopg.types.string import StrDumperUnknown, TextLoader

from holdfast.errors import StoreBusy, StoreConflict, StoreError, StoreUnavailable
from holdfast.stores.migration import pending
from holdfast.stores.seam import Dialect, name_rows
from holdfast.stores.sqlite import SqliteTx
from holdfast.stores.statement import Migration, Statement
from holdfast.tables.schema import KERNEL
from holdfast_proof.history import _TOLD, Told
from holdfast_proof.hosts import Host
from holdfast_proof.store import Arena, SimLane, SimStore, StoreFaults
from holdfast_proof.world import SimWorld

_LOG = """
CREATE TABLE proof_log (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at bigint, wall bigint, host text,
  what text, id text, data text);
CREATE FUNCTION json_extract(value text, path text) RETURNS bigint LANGUAGE sql
  AS 'SELECT CAST(CAST(value AS json)->>substr(path, 3) AS bigint)';
CREATE FUNCTION proof_joined(text, text) RETURNS text LANGUAGE sql AS 'SELECT concat_ws('','', $1, $2)';
CREATE AGGREGATE group_concat(text) (SFUNC = proof_joined, STYPE = text);
"""
_TRIGGER = """
CREATE FUNCTION proof_{what}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO proof_log (at, wall, host, what, id, data)
  VALUES (CAST(current_setting('proof.at') AS bigint), CAST(current_setting('proof.wall') AS bigint),
          current_setting('proof.host'), '{what}', CAST({identity} AS text), CAST(json_build_array({columns}) AS text));
  RETURN NULL; END $$;
CREATE TRIGGER proof_{what} AFTER {when} FOR EACH ROW EXECUTE FUNCTION proof_{what}();
"""
_WHO = "SET proof.host = '{}'; SET proof.at = {}; SET proof.wall = {}"
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'holdfast_schema'"


class NamedRow(tuple[Any, ...]):
    """A row by position and by name, as both drivers of production give it."""

    names: Mapping[str, int]

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self.names[key] if isinstance(key, str) else key)

    def keys(self) -> list[str]:
        return list(self.names)


def named_rows(cursor: psycopg.Cursor[Any]) -> RowMaker[NamedRow]:
    """By the names as they came: a description of each column, and a class for each answer, would take longer than to
    ask."""
    result = cursor.pgresult
    return _named(tuple(result.fname(place) or b"" for place in range(result.nfields)) if result else ())


@cache
def _named(columns: tuple[bytes, ...]) -> type[NamedRow]:
    return type("Row", (NamedRow,), {"names": {name.decode(): place for place, name in enumerate(columns)}})


class NumberDumper(Dumper):
    """A number whose type the server infers, as it does for production's driver."""

    oid = 0

    def dump(self, obj: Any) -> bytes:
        return str(obj).encode()


class Connection:
    """A connection that can be asked as SQLite's is: `execute(text, values).fetchall()`, with `?` or `$1`."""

    def __init__(self, url: str, *, reads: bool = False) -> None:
        self._raw = psycopg.connect(
            url, autocommit=True, cursor_factory=psycopg.RawCursor, row_factory=named_rows, prepare_threshold=1
        )
        self._raw.adapters.register_dumper(int, NumberDumper)
        self._raw.adapters.register_dumper(str, StrDumperUnknown)
        self._raw.adapters.register_loader("uuid", TextLoader)
        self._raw.execute("SET lock_timeout = '20ms'; SET synchronous_commit = off; SET jit = off")
        self._raw.execute("SET plan_cache_mode = force_generic_plan")  # as production does: each is planned once
        self._reads, self._who, self._begins = reads, "", ""

    def begin(self) -> None:
        """A transaction, from its first statement on: they are sent together."""
        self._begins = "BEGIN"

    def commit(self) -> None:
        if not self._begins:
            self.script("COMMIT")
        self._begins = ""

    def prepare(self, text: str, host: Host) -> None:
        """What must be said before a statement: that a transaction begins, and who writes when. In a transaction it is
        asked only by what changes rows; a world may write by the connection that reads, in the last reader's name."""
        is_asked = self._reads or not text.startswith("SELECT")
        who = _WHO.format(host.label, host.loop.now_ms, host.wall_ms) if is_asked else ""
        said = [each for each in (self._begins, who if who != self._who else "") if each]
        if said:
            self.script("; ".join(said))
        self._who, self._begins = who or self._who, ""

    def roll_back(self) -> None:
        self._begins = ""
        if self._raw.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            self.script("ROLLBACK")
        self._who = ""  # what was said in a transaction goes with it

    def script(self, text: str) -> None:
        self._raw.execute(text.encode())

    def execute(self, text: str, values: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        return self._raw.execute(_numbered(text), list(values))

    def copy(self, table: str, columns: Sequence[str], pieces: Iterable[str]) -> None:
        with (
            self._raw.cursor() as cursor,
            cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN".encode()) as to,
        ):
            for piece in pieces:
                to.write(piece)

    def close(self) -> None:
        self._raw.close()


@cache
def _numbered(text: str) -> bytes:
    for number in range(text.count("?")):
        text = text.replace("?", f"${number + 1}", 1)
    return text.encode()


class PostgresArena(Arena):
    """One database of the server, emptied for every seed."""

    def __init__(self, url: str, migrations: Sequence[Migration], watched: Mapping[str, Told], folder: Path) -> None:
        self.path = str(folder / "beside")  # files of a world lie beside its database
        self.faults = StoreFaults()
        self.done: Counter[str] = Counter()
        self.stores: list[SimStore] = []
        self.writing: Host | None = None
        self.keeper: Any = Connection(url, reads=True)
        self.pen = Connection(url)
        for migration in pending(migrations, []):
            for text in migration.statements("postgres"):
                self.keeper.script(text)
        self.keeper.script(_LOG)
        for what, (when, identity, columns) in {**_TOLD, **watched}.items():
            self.keeper.script(_TRIGGER.format(what=what, when=when, identity=identity, columns=columns))
        tables = [row[0] for row in self.keeper.execute(_TABLES).fetchall()]
        self._filled = " UNION ALL ".join(f"SELECT '{name}' WHERE EXISTS (SELECT FROM {name})" for name in tables)

    def open(self, host: Host, dice: Random) -> SimStore:
        return RingStore(self, host, dice)

    def reset(self) -> None:
        self.undo()
        self.stores, self.faults, self.done = [], StoreFaults(), Counter()
        # Rows come in the order in which they lie: to delete them would leave it to chance. An empty table stays, its
        # three files would be made anew.
        filled = [row[0] for row in self.keeper.execute(self._filled).fetchall()]
        if filled:
            self.keeper.script(f"TRUNCATE {', '.join(filled)}")

    def undo(self) -> None:
        """Roll back what was not committed, and let others write."""
        self.pen.roll_back()
        self.writing = None

    def close(self) -> None:
        self.pen.close()
        self.keeper.close()


class RingStore(SimStore):
    """A host's store on PostgreSQL. Whoever asks while another's transaction is open is told that it is busy."""

    dialect: Dialect = "postgres"
    has_one_writer = False

    def __init__(self, arena: PostgresArena, host: Host, dice: Random) -> None:
        super().__init__(arena, host, dice)
        self._ring, self._host, self._over = arena, host, False
        self._writer, self._reader = RingLane(self, writes=True), RingLane(self, writes=False)

    def abandon(self) -> None:
        self._over = True
        if self._ring.writing is self._host:
            self._ring.undo()
        if self in self._ring.stores:
            self._ring.stores.remove(self)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        async with self._writer.lock:
            await self._begin(self._writer, "")
            tx = RingTx(self, self._ring.pen)
            try:
                yield tx
                tx.check()
                self._ring.pen.commit()
            except BaseException:
                if self._ring.writing is self._host:
                    self._ring.undo()
                raise
            self._ring.writing = None
            await self.committed()
        for channel in sorted(tx.channels):
            self._listeners.wake(channel)
        for callback in tx.callbacks:
            callback()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Any]:
        async with self._reader.lock:
            await self._begin(self._reader, "")
            yield RingTx(self, self._ring.keeper)


class RingLane(SimLane):
    """The way to the pen, for one host at a time; without one it only reads."""

    def __init__(self, store: RingStore, writes: bool) -> None:
        super().__init__(store._ring, store._host)
        self._store, self._writes = store, writes

    async def begin(self, text: str) -> None:
        ring = self._store._ring
        if self._store._over:
            raise StoreUnavailable("This process is dead.")
        if not self._writes:
            return
        if ring.writing is not None:
            raise StoreBusy("Another process is writing.")
        ring.writing = self._store._host
        ring.pen.begin()


class RingTx(SqliteTx):
    """Runs the other text of every statement."""

    dialect: Dialect = "postgres"

    def __init__(self, store: RingStore, connection: Connection) -> None:
        super().__init__(store._writer)
        self.store, self.connection = store, connection

    def check(self) -> None:
        if self.store._over:
            raise StoreUnavailable("This process is dead.")
        if self.connection is self.store._ring.pen and self.store._ring.writing is not self.store._host:
            raise StoreUnavailable("The transaction is over.")

    async def rows(self, statement: Statement, *, into: Any = None, **params: Any) -> Any:
        self.check()
        self.channels.update(params.get("channels", ()))
        try:
            self.connection.prepare(statement.postgres, self.store._host)
            asked = self.connection.execute(statement.postgres, [params[name] for name in statement.order])
            return name_rows(asked.fetchall() if asked.pgresult and asked.pgresult.nfields else [], into)
        except psycopg.Error as error:
            raise _translated(error) from error

    async def load(self, table: str, columns: Sequence[str], pieces: Iterable[str]) -> None:
        self.check()
        self.connection.prepare("COPY", self.store._host)
        self.connection.copy(table, columns, pieces)


def _translated(error: psycopg.Error) -> StoreError:
    if isinstance(error, psycopg.errors.UniqueViolation):
        return StoreConflict(f"The database has this row already: {error}.")
    if isinstance(error, psycopg.errors.LockNotAvailable | psycopg.errors.QueryCanceled):
        return StoreBusy("Another process is writing; nothing was written.")
    return StoreError(f"PostgreSQL refused a statement: {error}.")


def arenas_of(build: type[SimWorld], urls: Sequence[str], folder: Path) -> dict[str, Arena]:
    """The databases of a world on a server, each empty and told to tell what happens to it."""
    made: dict[str, Arena] = {}
    for (name, apps), url in zip(build.databases.items(), urls, strict=True):
        steps = [*KERNEL, *(step for app in apps for step in app.migrations)]
        made[name] = PostgresArena(url, steps, build.watched.get(name, {}), folder)
    return made

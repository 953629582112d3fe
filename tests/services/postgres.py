"""A private PostgreSQL cluster on a free loopback port, with fsync on: what the tests see is what users get.

`initdb` refuses root, so under root everything of the cluster runs as `nobody`, in a folder of its own.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

from tests.services import child
from tests.services.child import ServerUnavailable
from tests.services.found import find_postgres

_SETTINGS = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{folder}'
max_connections = 100
fsync = on
synchronous_commit = on
shared_buffers = 128MB
logging_collector = off
"""
_END_OTHERS = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
"""It waits until they are gone: a commit that is on its way would leave a row behind."""
_SCHEMAS = r"SELECT nspname FROM pg_namespace WHERE nspname <> 'information_schema' AND nspname NOT LIKE 'pg\_%'"
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'holdfast_schema'"


class PostgresServer:
    """One cluster. `begin` starts it; `stop` ends it and removes its folder."""

    def __init__(self) -> None:
        found = find_postgres()
        if found is None:
            raise ServerUnavailable("PostgreSQL is not on this machine; `make servers` fetches it")
        self._user = "nobody" if child.is_root() else None
        self._folder = child.private_folder("postgres", self._user)
        self._programs = _reachable(found, self._folder) if child.is_root() else found
        self._log = self._folder / "log"
        self.port = child.free_ports(1)[0]
        self._numbers = itertools.count(1)
        self._empty: list[str] = []
        self._copies: dict[str, list[str]] = {}
        self._kept: dict[str, str] = {}
        self._pens: dict[str, psycopg.Connection] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Make the cluster and start it; returns when it answers."""
        data = self._folder / "data"
        # --no-sync spares only the making of the cluster; the server itself syncs every commit.
        initdb: list[str | Path] = [self._programs / "initdb", "-D", data, "-U", "holdfast", "-A", "trust"]
        made = child.start(
            [*initdb, "-E", "UTF8", "--locale=C", "--no-sync"], log=self._log, env=self._env(), user=self._user
        )
        if made.wait(120) != 0:
            raise ServerUnavailable(f"initdb failed:\n{self._log.read_text()}")
        self._configure()

    def begin_as_standby(self, primary: PostgresServer, name: str = "standby") -> None:
        """Copy another cluster and follow it by this name, read-only, until `promote`."""
        source = f"{primary.url()}?application_name={name}"
        copy: list[str | Path] = [self._programs / "pg_basebackup", "-d", source, "-D", self._folder / "data"]
        copied = child.start(
            [*copy, "-R", "-X", "stream", "-c", "fast", "--no-sync"], log=self._log, env=self._env(), user=self._user
        )
        if copied.wait(120) != 0:
            raise ServerUnavailable(f"pg_basebackup failed:\n{self._log.read_text()}")
        self._configure()

    def promote(self) -> None:
        """Make a standby the primary; returns when it can be written."""
        self._execute(sql.SQL("SELECT pg_promote()").format())

    def _configure(self) -> None:
        with (self._folder / "data" / "postgresql.conf").open("a") as config:
            config.write(_SETTINGS.format(port=self.port, folder=self._folder))
        self._start()

    @property
    def pid(self) -> int:
        """The server's own process; its children are the backends."""
        assert self._process is not None, "begin first"
        return self._process.pid

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://holdfast@127.0.0.1:{self.port}/{database}"

    def create_database(self) -> str:
        """The URL of a fresh database."""
        return self._empty.pop() if self._empty else self._copy_of("template0")

    def copy_of(self, template: str) -> str:
        """The URL of a database with the tables of another and no rows; `take_copy` when it is done with."""
        copies = self._copies.setdefault(template, [])
        return copies.pop() if copies else self._copy_of(template.rpartition("/")[2])

    def take_copy(self, template: str, url: str) -> None:
        """Keep a copy without its rows for the next `copy_of`: half a second of CPU less than to make another."""
        self._take_out(self._pen(url))
        self._pens.pop(url).close()  # there may be fifty at a time, and a server has a hundred sessions
        self._copies[template].append(url)

    def _copy_of(self, template: str) -> str:
        name = f"t{next(self._numbers)}"
        self._execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template)))
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Drop a database that `create_database` made, whoever is still connected to it."""
        self._pens.pop(url, None)
        name = url.rpartition("/")[2]
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def give_back(self, url: str) -> None:
        """Take everything out of a database, for the next test that wants a fresh one: to make and to drop one are two
        checkpoints, and were most of a short test's time."""
        with _alone(url) as connection:
            for (schema,) in connection.execute(_SCHEMAS).fetchall():
                connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))
            connection.execute("CREATE SCHEMA public")
            name = sql.Identifier(connection.info.dbname)
            connection.execute(sql.SQL("ALTER DATABASE {} RESET ALL").format(name))
        self._empty.append(url)

    def emptied(self, purpose: str) -> str:
        """The URL of the one database of this purpose: its tables as they were migrated, and no row in them.

        Commits do not wait for the disk: a test that crashes the server wants a fresh one."""
        if purpose not in self._kept:
            self._kept[purpose] = self.create_database() + "?synchronous_commit=off"
            return self._kept[purpose]
        self.empty(self._kept[purpose].partition("?")[0])
        return self._kept[purpose]

    def empty(self, url: str) -> None:
        """End all other sessions of a database and take every row out of it. The session that does so stays: to open
        one, and to look up thirty tables in it, takes longer than what most tests do there."""
        try:
            self._take_out(self._pens.get(url) or self._pen(url))
        except psycopg.OperationalError:  # the server was restarted meanwhile
            self._take_out(self._pen(url))

    def _pen(self, url: str) -> psycopg.Connection:
        self._pens[url] = psycopg.connect(url, autocommit=True, prepare_threshold=0)
        self._pens[url].execute("SET synchronous_commit = off")
        self._pens[url].execute("SET session_replication_role = replica")  # rows go in any order
        return self._pens[url]

    def _take_out(self, pen: psycopg.Connection) -> None:
        pen.execute(_END_OTHERS)
        tables = [sql.Identifier(name) for (name,) in pen.execute(_TABLES).fetchall()]
        asked = sql.SQL("SELECT {} WHERE EXISTS (SELECT FROM {})")
        filled = sql.SQL(" UNION ALL ").join(asked.format(sql.Literal(table.as_string()), table) for table in tables)
        for (table,) in pen.execute(filled).fetchall() if tables else ():
            pen.execute(sql.SQL("DELETE FROM {}").format(sql.SQL(table)))

    def restart(self, *, immediate: bool = True) -> None:
        """Stop and start on the same port. `immediate` loses every connection and recovers from the log, as a
        crash does; otherwise open sessions are ended in order."""
        self.halt(immediate=immediate)
        self._start()

    def halt(self, *, immediate: bool = True) -> None:
        """Stop without starting again; `resume` ends the outage."""
        if self._process is not None:
            child.end(self._process, signal.SIGQUIT if immediate else signal.SIGINT)

    def resume(self) -> None:
        self._start()

    def stop(self) -> None:
        self.halt(immediate=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        command: list[str | Path] = [self._programs / "postgres", "-D", self._folder / "data"]
        self._process = child.start(
            command, log=self._log, env=self._env(), user=self._user, last_signal=signal.SIGQUIT
        )
        child.wait_until(self._answers, self._process, self._log, timeout_s=60)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)

    def _env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        return kept | {"HOME": str(self._folder), "LC_ALL": "C", "TZ": "UTC"}


@contextmanager
def _alone(url: str) -> Iterator[psycopg.Connection]:
    """A connection that ends all others of its database, and whose changes need not reach the disk."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        connection.execute(_END_OTHERS)
        yield connection


def _reachable(programs: Path, folder: Path) -> Path:
    """The programs where `nobody` may run them: those of a wheel can lie below a home that only root may enter."""
    if programs.is_relative_to("/usr"):
        return programs
    package = programs.parents[1]
    copied = folder / "site"
    libraries = f"{package.name}.libs"  # a wheel finds its libraries beside its package
    for part in (f"{package.name}/{programs.parent.name}", libraries):
        if (package.parent / part).exists():
            shutil.copytree(package.parent / part, copied / part, symlinks=True)
    return copied / programs.relative_to(package.parent)

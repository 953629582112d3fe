"""A private PgBouncer on a free loopback port, before a private PostgreSQL. As it comes: it ignores no parameter."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from urllib.parse import urlsplit

import psycopg

from tests.services import child
from tests.services.child import ServerUnavailable
from tests.services.found import UNPACKED, find_pgbouncer
from tests.services.postgres import PostgresServer

_SETTINGS = """[databases]
* = host=127.0.0.1 port={postgres} user=holdfast
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {sessions}
max_client_conn = 200
query_wait_timeout = 10
server_login_retry = 1
"""


class PgBouncer:
    """One pooler. `auth_type = any` logs everybody in as the user that its databases name."""

    def __init__(self, postgres: PostgresServer, mode: str, sessions: int) -> None:
        program = find_pgbouncer()
        if program is None:
            raise ServerUnavailable("PgBouncer is not on this machine; `make servers` fetches it")
        self._program = program
        self._user = "nobody" if child.is_root() else None
        self._folder = child.private_folder("pgbouncer", self._user)
        self._log = self._folder / "log"
        self.port = child.free_ports(1)[0]
        settings = _SETTINGS.format(postgres=postgres.port, port=self.port, mode=mode, sessions=sessions)
        self._config = self._folder / "pgbouncer.ini"
        self._config.write_text(settings)
        self._config.chmod(0o644)
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        # One that was unpacked by an ordinary user has its libraries beside it.
        libraries = ":".join(str(folder) for folder in UNPACKED.glob("usr/lib/*-linux-gnu"))
        env = {"PATH": os.defpath, "LD_LIBRARY_PATH": libraries} if libraries else None
        self._process = child.start([self._program, self._config], log=self._log, env=env, user=self._user)
        child.wait_until(self._answers, self._process, self._log, timeout_s=30)

    def kill(self) -> None:
        """End it as a crash would; `begin` starts it again on the same port."""
        if self._process is not None:
            child.end(self._process, signal.SIGKILL)

    def stop(self) -> None:
        if self._process is not None:
            child.end(self._process, signal.SIGTERM)
        shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, behind: str) -> str:
        """The way to a database of the server's through the pooler."""
        parts = urlsplit(behind)
        return f"postgresql://holdfast@127.0.0.1:{self.port}{parts.path}"

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url("//x/postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

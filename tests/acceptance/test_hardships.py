"""What a machine may do to a process: few files, a folder that cannot be written, a second copy, a kill."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from holdfast.http.auth import token_for
from holdfast.settings import Settings, read
from holdfast.stores.sqlite import SqliteStore
from holdfast.tables.schema import KERNEL
from holdfast_systems.conversion.demo import pdf
from tests.acceptance.process import Nursery, Process, until
from tests.services.child import free_ports

pytestmark = [pytest.mark.slow, pytest.mark.spec("K30")]
FILES_MAX = 64


class Copy:
    """One `holdfast up` of conversion on a folder."""

    def __init__(self, nursery: Nursery, folder: Path, **env: str) -> None:
        (port,) = free_ports(1)
        self.folder, self.url = folder, f"http://127.0.0.1:{port}"
        env = {"HOLDFAST_DATA_DIR": str(folder), "HOLDFAST_PORT": str(port), **env}
        self.process: Process = nursery.start("up", "--system", "conversion", env=env)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[httpx.AsyncClient]:
        settings = read(Settings, {"HOLDFAST_DATA_DIR": str(self.folder)})
        headers = {"Authorization": f"Bearer {token_for(settings, 'ann', ['learner'])}"}
        async with httpx.AsyncClient(base_url=self.url, headers=headers, timeout=30, verify=False) as client:
            yield client

    async def ready(self) -> None:
        async def answers() -> bool:
            assert self.process.exit_code() is None, self.process.tail()
            try:
                async with httpx.AsyncClient(verify=False) as client:
                    return (await client.get(f"{self.url}/readyz", timeout=5)).status_code == 200
            except httpx.HTTPError:
                return False

        await until(answers, "the server", 120, process=self.process)

    async def convert(self, count: int) -> list[str]:
        async with self.client() as client:
            files = [{"file": ("a.pdf", pdf(f"Title {number}", ["A line."]))} for number in range(count)]
            answers = [await client.post("/api/jobs", files=each) for each in files]
        return [answer.json()["id"] for answer in answers]

    async def until_converted(self, jobs: list[str]) -> None:
        async def converted() -> bool:
            async with self.client() as client:
                shown = [(await client.get(f"/api/jobs/{job}")).json()["status"] for job in jobs]
            return set(shown) == {"complete"}

        await until(converted, "the conversions", 90, process=self.process)


async def test_two_copies_on_one_folder_share_the_work(nursery: Nursery, tmp_path: Path) -> None:
    """Started at the same moment on an empty folder: one schema, one secret, and every job once."""
    copies = [Copy(nursery, tmp_path / "data") for _ in range(2)]
    for copy in copies:
        await copy.ready()
    jobs = [job for copy in copies for job in await copy.convert(3)]
    for copy in copies:
        await copy.until_converted(jobs)
    with sqlite3.connect(tmp_path / "data" / "conversion.db") as database:
        ended = database.execute("SELECT COUNT(*) FROM holdfast_every_event WHERE type = 'succeeded' GROUP BY job_id")
        assert [count for (count,) in ended] == [1] * len(jobs)
    for copy in copies:
        assert await copy.process.end() == 0


async def test_a_process_with_few_files_refuses_connections_and_goes_on(nursery: Nursery, tmp_path: Path) -> None:
    copy = Copy(nursery, tmp_path / "data", HOLDFAST_HEADER_SEC="2")
    resource.prlimit(copy.process.pid, resource.RLIMIT_NOFILE, (FILES_MAX, FILES_MAX))
    await copy.ready()
    _, port = copy.url.removeprefix("http://").split(":")
    held = [await asyncio.open_connection("127.0.0.1", int(port)) for _ in range(2 * FILES_MAX)]
    for _, writer in held:
        writer.write(b"GET /healthz HTTP/1.1\r\n")
    await copy.ready()  # while the others still hold what they were given
    jobs = await copy.convert(2)
    await copy.until_converted(jobs)
    assert copy.process.exit_code() is None
    for _, writer in held:
        writer.close()
    assert await copy.process.end() == 0


def test_a_folder_that_cannot_be_written_is_named_in_a_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(0o500)
    # Root goes past permissions; without these two rights it does not.
    plain = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all", "--ambient-caps=-all"]
    prefix = [*plain, "--"] if os.geteuid() == 0 else []
    env = {**os.environ, "HOLDFAST_DATA_DIR": str(folder), "HOLDFAST_PORT": "0"}
    command = [*prefix, sys.executable, "-m", "holdfast", "up", "--system", "conversion"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert str(folder) in done.stderr and "HOLDFAST_DATA_DIR" in done.stderr
    assert list(folder.iterdir()) == []


def kills() -> Iterator[int]:
    """The numbers of statements before which a migration is killed: all over its length."""
    yield from range(2, 200, 22)


def test_a_migration_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    """On SQLite; tests/stores/test_migrate_live.py does it on PostgreSQL."""
    whole = asyncio.run(_schema_after(tmp_path / "whole.db"))
    killed = 0
    for number in kills():
        path = tmp_path / f"{number}.db"
        killed += _migrates_until_killed(path, number)
        assert asyncio.run(_schema_after(path)) == whole, f"killed before statement {number}"
    assert killed >= 5, "the kills came too late to matter"


def _migrates_until_killed(path: Path, statements: int) -> bool:
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(_migrate_and_die(path, statements))
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


async def _migrate_and_die(path: Path, statements: int) -> None:
    seen = 0

    def count(_: str) -> None:
        nonlocal seen
        seen += 1
        if seen > statements:
            os.kill(os.getpid(), signal.SIGKILL)

    store = SqliteStore(path, inline=True)
    await store.installed()
    await store._writer.execute("PRAGMA user_version")
    assert store._writer._connection is not None
    store._writer._connection.set_trace_callback(count)
    await store.migrate(KERNEL)
    await store.close()


async def _schema_after(path: Path) -> list[tuple[str, str]]:
    """The schema when the migration was run (again), and that the database is sound."""
    store = SqliteStore(path, inline=True)
    await store.migrate(KERNEL)
    await store.close()
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return database.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").fetchall()

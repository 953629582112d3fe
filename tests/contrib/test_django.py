"""A Django project: jobs in its own transactions, its own rows in a stage's commit, its commands, its admin."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast import App, InvalidInput, Job, SyncContext, enqueue, stage
from holdfast.engines.worker import Worker
from holdfast.errors import SettingsError
from holdfast.kernel import operate
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.main import open_store

django = pytest.importorskip("django")
from django.conf import settings  # noqa: E402
from django.db import connection, connections, transaction  # noqa: E402

from holdfast.contrib.django import database_url, project_settings  # noqa: E402

SITE = Path(__file__).parent / "site"
app = App("djangoshop")
during: list[Any] = []


@app.job()
class Follow(Job[int]):
    @stage()
    def run(self, ctx: SyncContext, number: int) -> None: ...


@app.job()
class Pay(Job[int]):
    @stage()
    def pay(self, ctx: SyncContext, number: int) -> int:
        try:
            with ctx.transaction(connection) as commit:
                write(number)
                enqueue(connection, Follow, number)
                for act in during:
                    act()
                commit.returns(number + 1)
            return 0
        finally:
            connection.close()


def write(number: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO own_rows (number) VALUES (%s)", [number])


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database that Django and Holdfast share, with a table of the project's."""
    if request.param == "sqlite":
        address = f"sqlite:///{tmp_path / 'site.db'}"
        config = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "site.db")}
        config |= {"OPTIONS": {"transaction_mode": "IMMEDIATE"}}  # type: ignore[dict-item]
    else:
        address = str(request.getfixturevalue("postgres_server").emptied("django"))
        parts = urlsplit(address)
        config = {"ENGINE": "django.db.backends.postgresql", "NAME": parts.path[1:], "USER": parts.username or ""}
        config |= {"HOST": parts.hostname or "", "PORT": str(parts.port or ""), "PASSWORD": parts.password or ""}
    if not settings.configured:
        settings.configure(USE_TZ=True, HOLDFAST={})
        django.setup()
    connections.settings = connections.configure_settings({"default": config})
    asyncio.run(migrate(address))
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS own_rows")
        cursor.execute("CREATE TABLE own_rows (number INTEGER)")
    connection.close()
    yield address
    connection.close()
    del connections["default"]
    during.clear()


async def migrate(address: str) -> None:
    kernel = Kernel(store=open_store(address), registry=Registry([app]))
    await kernel.migrate()
    await kernel.store.close()


def count(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM {table}")
        return int(cursor.fetchone()[0])


@pytest.mark.spec("K1")
def test_a_job_is_written_in_the_projects_own_transaction(url: str) -> None:
    with pytest.raises(InvalidInput, match="no open transaction"):
        enqueue(connection, Follow, 1)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        write(1)
        enqueue(connection, Follow, 1)
        raise ZeroDivisionError
    assert (count("own_rows"), count("holdfast_jobs")) == (0, 0)
    with transaction.atomic():
        write(1)
        first = enqueue(connection, Follow, 1, key="order-1")
        assert enqueue(connections["default"], Follow, 1, key="order-1") == first
    assert (count("own_rows"), count("holdfast_jobs")) == (1, 1)


async def run_pay(url: str) -> None:
    kernel = Kernel(store=open_store(url), registry=Registry([app]))
    from holdfast.kernel.submit import submit

    job_id = await submit(kernel, Pay, 17)

    def lose() -> None:
        asyncio.run_coroutine_threadsafe(operate.cancel(kernel, job_id, "ann"), loop).result()

    loop = asyncio.get_running_loop()
    during[:] = [lose if act == "lose" else act for act in during]
    await Worker(kernel).run_until_idle()
    await kernel.store.close()


@pytest.mark.spec("K26")
def test_the_projects_rows_the_stages_result_and_further_jobs_are_one_commit(url: str) -> None:
    asyncio.run(run_pay(url))
    assert (count("own_rows"), count("holdfast_jobs WHERE kind = 'djangoshop.follow'")) == (1, 1)
    assert count("holdfast_jobs WHERE state = 'succeeded'") == 2


@pytest.mark.spec("K26")
def test_a_failure_in_the_block_leaves_nothing(url: str) -> None:
    def fail() -> None:
        raise ValueError("at the end of the block")

    during[:] = [fail]
    asyncio.run(run_pay(url))
    assert (count("own_rows"), count("holdfast_jobs")) == (0, 1)


@pytest.mark.spec("K26")
@pytest.mark.parametrize("url", [pytest.param("postgres", marks=pytest.mark.slow)], indirect=True)
def test_an_attempt_that_lost_its_job_writes_nothing_of_the_projects(url: str) -> None:
    """SQLite has one writer: there nobody can take the job away inside of the block."""
    during[:] = ["lose"]
    asyncio.run(run_pay(url))
    assert (count("own_rows"), count("holdfast_jobs WHERE state = 'cancelled'")) == (0, 1)


def test_the_projects_database_is_the_jobs_database(url: str) -> None:
    assert database_url() == url.partition("?")[0]


def test_an_unknown_setting_is_named(url: str) -> None:
    settings.HOLDFAST = {"CONSOLE": "/jobs/"}
    try:
        with pytest.raises(SettingsError, match=r"HOLDFAST\['CONSOLE'\].*known: APP, CONSOLE_URL, DATABASE"):
            project_settings()
    finally:
        settings.HOLDFAST = {}


def manage(folder: Path, *words: str) -> str:
    env = {**os.environ, "SITE_DATABASE": str(folder / "site.db"), "HOLDFAST_LOG_LEVEL": "ERROR"}
    command = [sys.executable, "manage.py", *words]
    done = subprocess.run(command, cwd=SITE, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_project_migrates_works_looks_and_mounts_the_console(tmp_path: Path) -> None:
    """Its commands, its admin's link, and a console that its own staff may enter."""
    assert "Nothing to do" not in manage(tmp_path, "holdfast", "migrate")
    manage(tmp_path, "migrate")
    manage(tmp_path, "order", "17")
    manage(tmp_path, "holdfast", "worker", "--once")
    assert '"succeeded"' in manage(tmp_path, "holdfast", "jobs", "list", "--json")
    printed = manage(tmp_path, "visit")
    assert printed.split() == ["401", "401", "200", "admin-links-to", "/jobs/", "ann", "200"]

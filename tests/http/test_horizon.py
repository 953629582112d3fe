"""A transaction that nobody ends keeps old row versions from being removed: it is named before everything is slow."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from tests.http.conftest import Client
from tests.http.wishes import Grant, Wish
from tests.services.postgres import PostgresServer

from holdfast.kernel.kernel import Kernel
from holdfast.kernel.questions import horizon as words
from holdfast.kernel.questions.explain import explain
from holdfast.kernel.questions.horizon import held_back
from holdfast.kernel.submit import submit
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.statement import statement_of
from holdfast.tables import horizon
from holdfast.tables.horizon import NOBODY, Horizon

pytestmark = pytest.mark.spec("K17")


async def test_the_console_names_who_holds_old_versions_back(
    kernel: Kernel, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "HORIZON_LONG_S", 0.001)
    if not isinstance(kernel.store, PostgresStore):
        (view,) = (await client("olga", "operator").get("/api/ops/overview")).json()["items"]
        assert "old_transaction" not in [notice["topic"] for notice in view["asks"]]
        return
    with psycopg.connect(kernel.store._url.partition("?")[0], application_name="yearly-report") as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1 FROM holdfast_jobs LIMIT 1")
        async with kernel.store.reading() as tx:
            held = await horizon.read(tx)
        assert (held.what, held.name, held.pid) == ("session", "yearly-report", reader.info.backend_pid)
        (view,) = (await client("olga", "operator").get("/api/ops/overview")).json()["items"]
        (notice,) = (notice for notice in view["asks"] if notice["topic"] == "old_transaction")
        assert "session 'yearly-report', pid" in notice["sentence"]
        job_id = await submit(kernel, Grant, Wish(text="rain"))
        assert "session 'yearly-report', pid" in (await explain(kernel, job_id)).sentence
        scraped = (await client().get("/metrics")).text
        assert 'holdfast_oldest_transaction_seconds{system="wishes"}' in scraped
    async with kernel.store.reading() as tx:
        assert (await horizon.read(tx)).name != "yearly-report"


async def test_a_writer_without_a_snapshot_holds_old_versions_back_too(kernel: Kernel) -> None:
    """Between its statements a READ COMMITTED transaction that has written has an id and no snapshot. Whoever asks is
    not the one who is named."""
    if not isinstance(kernel.store, PostgresStore):
        return
    with psycopg.connect(kernel.store._url.partition("?")[0], application_name="import") as writer:
        writer.execute("SELECT txid_current()")
        async with kernel.store.transaction() as tx:
            assert (await horizon.read(tx)).pid == writer.info.backend_pid
        writer.rollback()
        async with kernel.store.transaction() as tx:
            (own,) = await tx.rows(statement_of("SELECT txid_current() AS id, pg_backend_pid() AS pid"))
            assert (await horizon.read(tx)).pid != own["pid"]


def test_a_vacuum_that_runs_holds_nothing_back(postgres_url: str) -> None:
    """It shows a snapshot for as long as it takes, and no other VACUUM waits for it."""
    with psycopg.connect(postgres_url, autocommit=True) as watcher, psycopg.connect(postgres_url) as other:
        watcher.execute("CREATE TABLE wide AS SELECT n FROM generate_series(1, 20000) AS n")
        other.autocommit = True
        other.execute("SET application_name = 'vacuum'; SET vacuum_cost_delay = 100; SET vacuum_cost_limit = 1")
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(other.execute, "VACUUM wide")
            while not watcher.execute("SELECT 1 FROM pg_stat_progress_vacuum").fetchall():
                assert not running.done()
            text = horizon.sql.holder.postgres
            named = [row[1] for row in watcher.execute(text.encode()).fetchall()]
            shown = watcher.execute(
                "SELECT 1 FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid = %s", [other.info.backend_pid]
            )
            assert shown.fetchall() and "vacuum" not in named
            other.cancel()
            with pytest.raises(psycopg.errors.QueryCanceled):
                running.result()


async def test_a_transaction_of_another_database_holds_nothing_back_here(
    kernel: Kernel, request: pytest.FixtureRequest
) -> None:
    """VACUUM of one database does not wait for readers of another: to name them would be a false alarm."""
    if not isinstance(kernel.store, PostgresStore):
        async with kernel.store.reading() as tx:
            assert await horizon.read(tx) == NOBODY
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with psycopg.connect(server.url(), application_name="elsewhere") as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1 FROM pg_class LIMIT 1")
        async with kernel.store.reading() as tx:
            assert (await horizon.read(tx)).name != "elsewhere"


def test_a_short_transaction_is_no_news() -> None:
    assert held_back(Horizon("session", "psql", 7, 299.0, 1_000)) is None
    text = held_back(Horizon("session", "pg_dump", 7, 840.0, 1_200_000))
    assert text is not None and text.startswith(
        "A transaction has been open for 14 min (session 'pg_dump', pid 7) and keeps 1,200,000 old row versions"
    )

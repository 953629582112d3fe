"""Migrations beside a fleet at work: locks that others hold, indexes, kills, old code beside a new schema. What is
about locks is PostgreSQL's alone: on SQLite every writer is alone, and readers hold up nobody."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import asyncpg
import pytest

from holdfast import App, Context, Job, stage
from holdfast.contrib.steps import apply_pending
from holdfast.engines.run import prepare
from holdfast.engines.worker import Worker
from holdfast.errors import SchemaMismatch, StoreBusy
from holdfast.http.health import readiness
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.submit import submit
from holdfast.stores import postgres_migrate
from holdfast.stores.migration import Patience
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres_migrate import MIGRATION_LOCK
from holdfast.stores.script import repeatable_statements
from holdfast.stores.statement import Migration, Statement, index_name
from holdfast.system import OpenSystem, System
from holdfast.tables.schema import KERNEL
from tests.kernel.places import DIALECTS, rows
from tests.stores.test_migrate import open_store

ROOT = Path(__file__).resolve().parents[2]
NOW = KERNEL[-1].version
EXPAND = Migration("holdfast", NOW + 1, f"-- oldest: {NOW}\nALTER TABLE holdfast_jobs ADD COLUMN colour TEXT;\n")
CONTRACT = Migration("holdfast", NOW + 2, "ALTER TABLE holdfast_jobs DROP COLUMN colour;\n")
INDEX = Migration(
    "holdfast",
    NOW + 1,
    f"-- oldest: {NOW}\n-- concurrently\nCREATE INDEX holdfast_jobs_by_owner ON holdfast_jobs (owner);\n",
)
DROP = Migration("holdfast", NOW + 1, f"-- oldest: {NOW}\nDROP INDEX holdfast_jobs_held;\n")
QUICK = Patience(lock_s=0.1, wait_s=0.5)

desk = App("desk")


@desk.job()
class Paper(Job[int]):
    @stage()
    async def sign(self, ctx: Context, number: int) -> int:
        return number


def url_of(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    made: str = request.getfixturevalue("postgres_url") if request.param == "postgres" else f"sqlite:///{tmp_path}/d.db"
    return made


@pytest.fixture(params=DIALECTS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request, tmp_path)


@asynccontextmanager
async def idle_reader(url: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody who has read a table and gone for lunch."""
    connection = await asyncpg.connect(url, server_settings={"application_name": "report"})
    await connection.execute("BEGIN")
    await connection.fetch("SELECT COUNT(*) FROM holdfast_jobs")
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def elsewhere(url: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody with an old snapshot, who has not touched the table: the building of an index waits for them too."""
    async with idle_reader(url) as connection:
        await connection.execute("COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ")
        await connection.fetch("SELECT 1 FROM holdfast_schema")
        yield connection


@pytest.mark.slow
@pytest.mark.spec("K19")
async def test_behind_an_idle_reader_claims_and_enqueues_go_on(postgres_url: str) -> None:
    store, other = PostgresStore(postgres_url), PostgresStore(postgres_url)
    kernel = Kernel(store=store, registry=Registry([desk]))
    await kernel.migrate()
    stop, waits, reports = asyncio.Event(), list[float](), list[str]()
    loop = asyncio.get_running_loop()
    working = asyncio.create_task(Worker(kernel, concurrency=4).run(stop))
    async with asyncio.timeout(120):
        async with idle_reader(postgres_url) as reader:
            migrating = asyncio.create_task(other.migrate([*KERNEL, EXPAND], Patience(report=reports.append)))
            while len(reports) < 3:
                began = loop.time()
                await submit(kernel, Paper, len(waits))
                waits.append(loop.time() - began)
            assert not migrating.done()
            pid = reader.get_server_pid()
        assert await migrating == [EXPAND.name]
        while await rows(other, "SELECT 1 FROM holdfast_jobs WHERE state <> 'succeeded' LIMIT 1"):
            await asyncio.wait([working], timeout=0.05)
    stop.set()
    await working
    assert max(waits) < 2, f"an enqueue waited {max(waits):.1f} s"
    assert len(waits) > 10
    assert all(f"process {pid} (report, user holdfast, idle in transaction, in a tran" in one for one in reports), (
        reports
    )
    for one in (store, other):
        await one.close()


@pytest.mark.spec("K19")
async def test_a_lock_that_is_never_had_is_given_up_and_its_holder_named(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    await store.migrate(KERNEL)
    free = Migration("board", 1, "CREATE TABLE board_notes (id INTEGER);\n")
    half = Migration("board", 2, "ALTER TABLE board_notes ADD COLUMN x TEXT;\nALTER TABLE holdfast_jobs ADD y TEXT;\n")
    async with idle_reader(postgres_url) as reader:
        patience = Patience(lock_s=1.0, wait_s=0.5)
        with pytest.raises(StoreBusy, match=rf"board/002 waits .* process {reader.get_server_pid()} \(report,") as told:
            await store.migrate([*KERNEL, free, half], patience)
    assert "run holdfast migrate again" in str(told.value)
    async with elsewhere(postgres_url) as reader:
        with pytest.raises(
            StoreBusy, match=rf"holdfast/{INDEX.version:03} .* process {reader.get_server_pid()} \(report,"
        ):
            await store.migrate([*KERNEL, free, INDEX], patience)
    assert await rows(store, "SELECT * FROM board_notes") == []  # what came before is kept
    assert await rows(store, "SELECT 1 FROM information_schema.columns WHERE column_name IN ('x', 'y')") == []
    assert await store.migrate([*KERNEL, free, half]) == ["board/002"]
    await store.close()


@pytest.mark.spec("K19")
async def test_who_migrates_elsewhere_is_waited_for_and_named(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    holder = await asyncpg.connect(postgres_url, server_settings={"application_name": "holdfast migrate"})
    await holder.execute("BEGIN")
    await holder.execute(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")
    reports: list[str] = []
    with pytest.raises(StoreBusy, match=rf"process {holder.get_server_pid()} \(holdfast migrate, user holdfast"):
        await store.migrate(KERNEL, Patience(lock_s=0.1, wait_s=0.3, report=reports.append))
    assert reports
    await holder.close()
    assert await store.migrate(KERNEL) == [step.name for step in KERNEL]
    await store.close()


@pytest.mark.spec("K19", "K22")
@pytest.mark.parametrize("auto", [True, False])
async def test_old_code_starts_and_works_beside_a_schema_that_only_added(url: str, auto: bool) -> None:
    newer = open_store(url)
    assert EXPAND.name in await newer.migrate([*KERNEL, EXPAND])
    kernel = Kernel(store=open_store(url), registry=Registry([desk]), auto_migrate=auto)
    assert await prepare(kernel) == []
    job_id = await submit(kernel, Paper, 7)
    assert await Worker(kernel).run_until_idle() == 1
    done = await rows(newer, f"SELECT state, colour FROM holdfast_jobs WHERE id = '{job_id}'")
    assert done == [{"state": "succeeded", "colour": None}]
    assert await readiness(OpenSystem(System("desk", "Desk", "X", lambda env: desk), kernel, {})) == "ready"
    for one in (newer, kernel.store):
        await one.close()


@pytest.mark.spec("K19", "K22")
async def test_a_rollback_over_several_steps_is_bounded_by_the_strictest_of_them(url: str) -> None:
    later = Migration("holdfast", NOW + 3, f"-- oldest: {NOW}\nALTER TABLE holdfast_jobs ADD COLUMN size TEXT;\n")
    newer, old = open_store(url), open_store(url)
    await newer.migrate([*KERNEL, EXPAND, CONTRACT, later])
    with pytest.raises(SchemaMismatch, match=rf"takes no code older than version {NOW + 2}; .* up to {NOW}: upgrade"):
        await old.migrate(KERNEL)
    assert await old.migrate([*KERNEL, EXPAND, CONTRACT]) == []
    for one in (newer, old):
        await one.close()


@pytest.mark.spec("K19")
async def test_a_schema_from_before_oldest_was_recorded_is_understood_and_completed(url: str) -> None:
    """As the releases before left it: a table of steps with three columns."""
    store = open_store(url)
    await store.migrate(KERNEL)
    drop = "ALTER TABLE holdfast_schema DROP COLUMN oldest"
    async with store.transaction() as tx:
        await tx.rows(Statement("drop", drop, drop, ()))
    other = open_store(url)
    assert await other.migrate(KERNEL) == []
    assert {one.oldest for one in await other.installed()} == {None}
    assert await other.migrate([*KERNEL, EXPAND]) == [EXPAND.name]
    assert {one.oldest for one in await other.installed()} == {None, NOW}
    for one in (store, other):
        await one.close()


@pytest.mark.spec("K19")
async def test_an_index_is_built_beside_open_transactions(url: str) -> None:
    store = open_store(url)
    await store.migrate(KERNEL)
    assert await store.migrate([*KERNEL, INDEX]) == [INDEX.name]
    if store.dialect == "postgres":
        assert await rows(store, VALID) == [{"valid": True}]
        again = "CREATE INDEX CONCURRENTLY IF NOT EXISTS holdfast_jobs_by_owner ON holdfast_jobs (owner)"
        assert INDEX.statements("postgres") == [again]
    else:
        assert INDEX.statements("sqlite") == ["CREATE INDEX holdfast_jobs_by_owner ON holdfast_jobs (owner)"]
        assert await rows(store, "SELECT 1 AS n FROM sqlite_master WHERE name = 'holdfast_jobs_by_owner'") == [{"n": 1}]
    await store.close()


VALID = """SELECT indisvalid AS valid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
 WHERE relname = 'holdfast_jobs_by_owner'"""
MIGRATING = "SELECT pid FROM pg_stat_activity WHERE application_name = 'holdfast migrate' AND query LIKE {}"
CHILD = """
import asyncio, sys
sys.path[:0] = [{root!r}]
from tests.stores import test_migrate_live as here
from holdfast.stores.postgres import PostgresStore
asyncio.run(PostgresStore({url!r}).migrate([*here.KERNEL, *{steps}]))
"""


async def blocked_child(url: str, steps: str, statement: str) -> tuple[subprocess.Popen[bytes], list[int]]:
    """A process that migrates and waits in a statement, and the backends that do it."""
    child = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", CHILD.format(root=str(ROOT), url=url, steps=steps)]
    )
    async with asyncio.timeout(60):
        looking = await asyncpg.connect(url)
        while not (found := await looking.fetch(MIGRATING.format(f"'{statement}%'") + " AND wait_event_type = 'Lock'")):
            assert child.poll() is None, "it did not wait"
            await asyncio.wait([asyncio.ensure_future(looking.fetch("SELECT pg_sleep(0.01)"))])
        await looking.close()
    return child, [row[0] for row in found]


@pytest.mark.slow
@pytest.mark.spec("K19")
async def test_an_index_that_a_kill_left_half_made_is_made_again(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    await store.migrate(KERNEL)
    async with idle_reader(postgres_url) as reader:
        await reader.execute("ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM holdfast_jobs")
        child, backends = await blocked_child(postgres_url, "[here.INDEX]", "CREATE INDEX")
        child.send_signal(signal.SIGKILL)
        child.wait()
        for pid in backends:
            await rows(store, f"SELECT pg_terminate_backend({pid}, 10000)")
        assert await rows(store, VALID) == [{"valid": False}]
    assert await store.migrate([*KERNEL, INDEX]) == [INDEX.name]
    assert await rows(store, VALID) == [{"valid": True}]
    await store.close()


@pytest.mark.spec("K19")
def test_who_runs_the_sql_by_other_means_makes_a_half_made_index_again() -> None:
    """Alembic, Django and psql do not ask what a killed run left; `IF NOT EXISTS` alone would keep it for ever."""
    step = Migration("holdfast", 2, "-- concurrently\nCREATE INDEX a_b ON a (b);\nDROP INDEX a_c;\n")
    assert repeatable_statements(step, "postgres") == [
        "DROP INDEX CONCURRENTLY IF EXISTS a_b",
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS a_b ON a (b)",
        "DROP INDEX CONCURRENTLY IF EXISTS a_c",
    ]
    assert repeatable_statements(step, "sqlite") == ["CREATE INDEX a_b ON a (b)", "DROP INDEX a_c"]
    ran: list[str] = []
    apply_pending(Registry([App("shop")]), "postgres", [], ran.append, nullcontext)
    makes = [text for text in ran if text.startswith("CREATE INDEX CONCURRENTLY")]
    assert makes and all(f"DROP INDEX CONCURRENTLY IF EXISTS {index_name(text)}" in ran for text in makes)


@pytest.mark.slow
@pytest.mark.spec("K19")
async def test_a_killed_migration_goes_on_where_it_was(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    await store.migrate(KERNEL)
    extra = Migration("holdfast", NOW + 2, "CREATE TABLE holdfast_extra (id INTEGER);\n")
    async with idle_reader(postgres_url):
        child, _ = await blocked_child(postgres_url, f"[{FIRST}, {SECOND}]", "ALTER TABLE")
        child.send_signal(signal.SIGKILL)
        child.wait()
    found = [one.version for one in await store.installed()]
    assert max(found) == NOW + 1, "the step before it is recorded, the one under way is not"
    again = [eval(one, {"here": sys.modules[__name__]}) for one in (FIRST, SECOND)]
    assert await store.migrate([*KERNEL, *again, Migration("holdfast", NOW + 3, extra.text)]) == [
        f"holdfast/{NOW + 2:03d}",
        f"holdfast/{NOW + 3:03d}",
    ]
    await store.close()


FIRST = "here.Migration('holdfast', here.NOW + 1, 'CREATE TABLE holdfast_first (id INTEGER);\\n')"
SECOND = "here.Migration('holdfast', here.NOW + 2, 'ALTER TABLE holdfast_jobs ADD COLUMN colour TEXT;\\n')"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("-- oldest: 9\nCREATE TABLE x (y TEXT);\n", "must be from 1 to 3"),
        ("-- oldest: 0\nCREATE TABLE x (y TEXT);\n", "must be from 1 to 3"),
        ("-- concurrently\nALTER TABLE x ADD y TEXT;\n", "may only make and drop indexes"),
    ],
)
def test_a_step_that_contradicts_itself_is_refused_when_it_is_loaded(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Migration("board", 3, text)


def test_every_step_of_the_kernel_after_the_first_release_says_who_may_run_beside_it() -> None:
    silent = [step.name for step in KERNEL[4:] if "-- oldest: " not in step.text]
    assert silent == [], "add `-- oldest: N` to the step, or say in it why older code cannot run beside it"


@pytest.mark.spec("K19")
@pytest.mark.parametrize(
    ("step", "taken"),
    [
        (INDEX, "UPDATE holdfast_jobs SET owner = owner"),
        (EXPAND, "SELECT 1 FROM holdfast_jobs"),
        (DROP, "SELECT 1 FROM holdfast_jobs"),
        (EXPAND, "LOCK TABLE holdfast_schema"),
    ],
    ids=["an index beside a writer", "a wait too short to be looked at", "an index that goes", "the table of steps"],
)
async def test_whoever_is_waited_for_is_named(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, step: Migration, taken: str
) -> None:
    monkeypatch.setattr(postgres_migrate, "LOOK_EVERY_S", 0.2)
    store, reports = PostgresStore(postgres_url), asyncio.Queue[str]()
    await store.migrate(KERNEL)
    async with idle_reader(postgres_url) as holder:
        await holder.execute(taken)
        patience = Patience(lock_s=0.01, wait_s=60, report=reports.put_nowait)
        migrating = asyncio.create_task(store.migrate([*KERNEL, step], patience))
        async with asyncio.timeout(30):
            report = await reports.get()
        assert f"waits for a lock of process {holder.get_server_pid()} (report, user holdfast, idle in" in report
    assert await migrating == [step.name]
    await store.close()

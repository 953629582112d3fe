"""A guest with manners: in somebody else's environment, database and migrations, with no more rights than it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import sqlalchemy
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from holdfast import App, Client, Context, Job, enqueue, enqueue_many, stage
from holdfast.contrib.alembic import include_name
from holdfast.engines.worker import Worker
from holdfast.errors import BadDeclaration, SchemaMismatch, StoreForbidden, StoreReadOnly
from holdfast.kernel.kernel import Registry
from holdfast.main import open_kernel
from holdfast.settings import Settings, problems, read
from holdfast.settings.names import unknown_names
from holdfast.stores.connecting import plain_url
from holdfast.system import System
from tests.services.found import REPOSITORY

pytestmark = pytest.mark.spec("K19")
app = App("guest", schema="jobs")


@app.job()
class Greet(Job[str, str]):
    @stage()
    async def greet(self, ctx: Context, name: str) -> str:
        engine = create_async_engine(os.environ["GUEST_URL"])
        async with AsyncSession(engine) as session, ctx.transaction(session) as commit:
            await session.execute(sqlalchemy.text("INSERT INTO greetings VALUES (:name)"), {"name": name})
            await enqueue(session, Thank, name)
            commit.returns(f"hello {name}")
        await engine.dispose()
        return ""


@app.job()
class Thank(Job[str, str]):
    @stage()
    async def thank(self, ctx: Context, name: str) -> str:
        return f"thanks, {name}"


@pytest.mark.parametrize(
    ("env", "value"),
    [
        ({"WORKER_CONCURRENCY": "3"}, 3),
        ({"HOLDFAST_WORKER_CONCURRENCY": "4"}, 4),
        ({"HOLDFAST_WORKER_CONCURRENCY": "4", "WORKER_CONCURRENCY": "many"}, 4),
        ({}, 50),
    ],
)
def test_every_setting_has_a_name_of_its_own_and_keeps_the_old_one(env: dict[str, str], value: int) -> None:
    assert read(Settings, env).concurrency == value


def test_a_wrong_value_is_named_as_it_was_set() -> None:
    assert problems(Settings, {"HOLDFAST_WORKER_CONCURRENCY": "many"}) == [
        "HOLDFAST_WORKER_CONCURRENCY is 'many'; it must be a whole number."
    ]


def test_the_database_has_a_name_of_its_own_too() -> None:
    shop = System("shop", "Shop", "DATABASE_URL", lambda env: app)
    env = {"DATABASE_URL": "mysql://theirs", "HOLDFAST_DATABASE_URL": "postgresql+asyncpg://ours/db"}
    assert shop.database_url(env, "data") == "postgresql://ours/db"
    assert problems(Settings, env) == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("HOLDFAST_WORKER_CONCURENCY", "; you may mean HOLDFAST_WORKER_CONCURRENCY."),
        ("HOLDFAST_DATABSE_URL", "; you may mean HOLDFAST_DATABASE_URL."),
        ("HOLDFAST_COLOUR", "."),
    ],
)
def test_a_name_that_nobody_reads_is_pointed_at(name: str, meant: str) -> None:
    known = {"HOLDFAST_DATABASE_URL": "x", "HOLDFAST_WORKER_CONCURRENCY": "1", "HOLDFAST_POOLER": "auto"}
    assert unknown_names([Settings], {**known, name: "1"}) == [f"{name} is set, but there is no such setting{meant}"]


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("postgresql+asyncpg://u:p@h:5/db", "postgresql://u:p@h:5/db"),
        ("postgresql+psycopg://h/db?sslmode=require", "postgresql://h/db?sslmode=require"),
        ("postgresql+asyncpg://h/db?ssl=require&prepared_statement_cache_size=0", "postgresql://h/db?sslmode=require"),
        ("postgres://h/db?connect_timeout=5&application_name=shop", "postgres://h/db?application_name=shop"),
        (
            "postgresql://h/db?options=-csearch_path%3Djobs%20-c%20jit%3Doff",
            "postgresql://h/db?search_path=jobs&jit=off",
        ),
        ("sqlite+aiosqlite:///./shop.db", "sqlite:///./shop.db"),
        ("mysql+pymysql://h/db", "mysql+pymysql://h/db"),
    ],
)
def test_the_urls_of_other_libraries_are_understood(url: str, plain: str) -> None:
    assert plain_url(url) == plain


@pytest.mark.parametrize("schema", ["Jobs", "my schema", "x; DROP TABLE y", ""])
def test_a_schema_that_cannot_be_one_is_refused_where_it_is_declared(schema: str) -> None:
    with pytest.raises(BadDeclaration, match=r"The schema '.*' must be a small letter"):
        App("guest", schema=schema)


def test_apps_of_two_schemas_are_not_opened_together() -> None:
    with pytest.raises(BadDeclaration, match="must name one schema: 'guest' in jobs, 'other' in no schema"):
        Registry([app, App("other")])


@pytest.mark.slow
async def test_the_tables_lie_in_a_schema_of_their_own_and_are_found_from_every_connection(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller's connections look elsewhere, as always."""
    monkeypatch.setenv("GUEST_URL", postgres_url.replace("postgresql://", "postgresql+asyncpg://"))
    settings = read(Settings, {"HOLDFAST_DATABASE_URL": os.environ["GUEST_URL"]})
    kernel = open_kernel(settings, [app])
    sentence = "no Holdfast tables in the schema 'jobs'; run holdfast migrate"
    with psycopg.connect(postgres_url) as connection, pytest.raises(SchemaMismatch, match=sentence):
        enqueue(connection, Greet, "ann")
    await kernel.migrate()
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE greetings (name TEXT)")
        first = enqueue(connection, Greet, "ann")
        enqueue_many(connection, Thank, ["bob", "eve"])
    async with Client.open(app, database=os.environ["GUEST_URL"]) as client:
        assert await client.enqueue_many(Thank, [str(number) for number in range(120)])
        await Worker(kernel).run_until_idle()
        assert await client.result(Greet, first) == "hello ann"
    await kernel.store.close()
    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute("SELECT schemaname, tablename FROM pg_tables WHERE tablename LIKE 'holdfast%'")
        assert {schema for schema, _ in tables} == {"jobs"}
        states = connection.execute("SELECT state, COUNT(*) FROM jobs.holdfast_jobs GROUP BY state").fetchall()
        assert states == [("succeeded", 124)]
        assert connection.execute("SELECT * FROM greetings").fetchall() == [("ann",)]


@pytest.mark.slow
async def test_a_right_that_is_refused_is_a_sentence(postgres_url: str) -> None:
    shop = App("shop")

    @shop.job()
    class Pay(Job[int]):
        @stage()
        async def pay(self, ctx: Context, amount: int) -> None: ...

    kernel = open_kernel(read(Settings, {"DATABASE_URL": postgres_url}), [shop])
    await kernel.migrate()
    await kernel.store.close()
    sentence = r"lacks a right \(permission denied for table holdfast_jobs\); to work it needs USAGE on the schema and"
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute(VISITOR)
        try:
            url = postgres_url.replace("holdfast@", "visitor@")
            async with Client.open(shop, database=url) as client:
                with pytest.raises(StoreForbidden, match=sentence):
                    await client.enqueue(Pay, 1)
            with psycopg.connect(url) as connection:
                with pytest.raises(StoreForbidden, match=sentence):
                    enqueue(connection, Pay, 1)
                connection.rollback()
                connection.read_only = True
                with pytest.raises(StoreReadOnly, match="This connection is read-only"):
                    enqueue(connection, Pay, 1)
        finally:
            owner.execute("DROP OWNED BY visitor; DROP ROLE visitor")


VISITOR = """CREATE ROLE visitor LOGIN; GRANT USAGE ON SCHEMA public TO visitor;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO visitor"""
REVISION = """
from alembic import op
from holdfast.contrib.alembic import upgrade_holdfast
from tests.door.test_guest import app

revision, down_revision, branch_labels, depends_on = {revision!r}, {before!r}, None, None

def upgrade():
    op.execute("INSERT INTO said VALUES ('" + ", ".join(upgrade_holdfast(op, app)) + "')")

def downgrade():
    pass
"""
FIRST = """
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "a", None, None, None

def upgrade():
    op.create_table("said", sa.Column("steps", sa.Text))
"""
ENV = """
import sqlalchemy
from alembic import context

url = context.config.get_main_option("sqlalchemy.url")
if context.is_offline_mode():
    context.configure(url=url, literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()
else:
    with sqlalchemy.create_engine(url).connect() as connection:
        context.configure(connection=connection)
        with context.begin_transaction():
            context.run_migrations()
"""


def alembic_in(folder: Path, url: str) -> Config:
    """A project of three revisions: their own table, Holdfast's, and Holdfast's again."""
    versions = folder / "versions"
    versions.mkdir()
    (folder / "env.py").write_text(ENV)
    (versions / "a.py").write_text(FIRST)
    (versions / "b.py").write_text(REVISION.format(revision="b", before="a"))
    (versions / "c.py").write_text(REVISION.format(revision="c", before="b"))
    config = Config()
    config.set_main_option("script_location", str(folder))
    config.set_main_option("sqlalchemy.url", url.replace("postgresql://", "postgresql+psycopg://"))
    return config


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_alembic_brings_the_tables_forward_once(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    config = alembic_in(tmp_path, url)
    command.upgrade(config, "head")
    engine = sqlalchemy.create_engine(config.get_main_option("sqlalchemy.url") or "")
    with engine.connect() as connection:
        steps = [row[0] for row in connection.execute(sqlalchemy.text("SELECT steps FROM said"))]
        context = MigrationContext.configure(connection, opts={"include_name": include_name})
        changes = compare_metadata(context, sqlalchemy.MetaData())
    engine.dispose()
    assert steps[0].startswith("holdfast/001, ") and steps[1] == "", "a second time nothing is left to do"
    assert "holdfast" not in str(changes), "autogenerate leaves the tables alone"
    kernel = open_kernel(read(Settings, {"DATABASE_URL": url}), [app])
    assert await kernel.migrate() == [], "nothing is pending"
    await kernel.store.close()
    async with Client.open(app, database=url) as client:
        assert (await client.status(await client.enqueue(Thank, "ann"))).state == "queued"


def test_alembic_prints_the_steps_for_somebody_else_to_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command.upgrade(alembic_in(tmp_path, "postgresql://nowhere/shop"), "a:b", sql=True)
    printed = capsys.readouterr().out
    assert "CREATE SCHEMA IF NOT EXISTS jobs;" in printed and "CREATE TABLE holdfast_jobs" in printed
    assert printed.count("INSERT INTO holdfast_schema") > 10


DJANGO = """
import sys
from urllib.parse import urlsplit
import django
from django.conf import settings
from django.core.management import call_command
from django.db import connection

url = urlsplit(sys.argv[1])
database = {"ENGINE": "django.db.backends.sqlite3", "NAME": url.path[1:]} if url.scheme == "sqlite" else {
    "ENGINE": "django.db.backends.postgresql", "NAME": url.path[1:], "USER": url.username, "HOST": url.hostname,
    "PORT": url.port}
settings.configure(DATABASES={"default": database}, INSTALLED_APPS=["shelf"], USE_TZ=True)
django.setup()
if sys.argv[2] == "atomic":
    from shelf.migrations import tables
    tables.Migration.atomic = True
call_command("migrate", verbosity=0)
connection.close()
"""
MIGRATION = """
from django.db import migrations
from holdfast.contrib.django_tables import holdfast_tables
from tests.door.test_guest import app

class Migration(migrations.Migration):
    atomic = False
    dependencies = {before}
    operations = [holdfast_tables(app)]
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_django_brings_the_tables_forward_once(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A project of its own process: Django's settings are the process's."""
    url = f"sqlite:///{tmp_path / 'shop.db'}" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    folder = tmp_path / "shelf" / "migrations"
    folder.mkdir(parents=True)
    (tmp_path / "shelf" / "__init__.py").touch()
    (folder / "__init__.py").touch()
    (folder / "tables.py").write_text(MIGRATION.format(before="[]"))
    (folder / "tables_again.py").write_text(MIGRATION.format(before="[('shelf', 'tables')]"))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(REPOSITORY)])}

    def migrate(way: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", DJANGO, url, way]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    assert "set atomic = False in this Migration class" in migrate("atomic").stderr
    done = migrate("plain")
    assert done.returncode == 0, done.stderr
    kernel = open_kernel(read(Settings, {"DATABASE_URL": url}), [app])
    assert await kernel.migrate() == [], "nothing is pending"
    await kernel.store.close()
    async with Client.open(app, database=url) as client:
        assert (await client.status(await client.enqueue(Thank, "ann"))).state == "queued"

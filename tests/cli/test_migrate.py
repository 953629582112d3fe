"""Only `migrate` and `up` change a schema; every other command looks, and says what is missing."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from holdfast.stores.statement import Migration
from holdfast.tables.schema import KERNEL
from tests.cli import shop
from tests.cli.conftest import APP, Place
from tests.kernel.places import DIALECTS

LOOKING = [
    "jobs list",
    "dead list",
    "breakers list",
    "breakers history bank",
    "effects list",
    "outbox list",
    "costs",
    "schedules list",
    "workers",
    "actions",
    "audit",
    "jobs show 0191f3a0-7c1e-7abc-8def-0123456789ab",
]
NAMES = [step.name for step in KERNEL]
RIVAL = ("--app", "tests.cli.shop:rival")


@pytest.fixture(params=DIALECTS)
def here(request: pytest.FixtureRequest, place: Place, tmp_path: Path) -> Place:
    """A deployment whose apps share one database, which is empty."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else f"sqlite:///{tmp_path}/one.db"
    return Place(place.env | {"DATABASE_URL": url})


def names_in(here: Place) -> list[str]:
    """Every table and column of the database; a file that is not there has none."""
    url = here.env["DATABASE_URL"]
    if url.startswith("postgres"):
        with psycopg.connect(url) as connection:
            found = (
                "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = 'public'"
            )
            return sorted(row[0] for row in connection.execute(found).fetchall())
    path = Path(url.removeprefix("sqlite:///"))
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as connection:
        return sorted(row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"))


@pytest.mark.slow
@pytest.mark.spec("K19")
def test_looking_at_an_empty_database_makes_nothing(here: Place) -> None:
    for words in LOOKING:
        said = here.refused(*words.split())
        assert said == "The database of 'shop' has no Holdfast tables; run holdfast migrate.", words
    assert names_in(here) == []


@pytest.mark.slow
@pytest.mark.spec("K19")
def test_looking_at_an_older_schema_says_so_and_changes_nothing(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    here.ok("migrate")
    before = names_in(here)
    newer = Migration("holdfast", KERNEL[-1].version + 1, "ALTER TABLE holdfast_jobs ADD COLUMN colour TEXT;\n")
    monkeypatch.setattr("holdfast.kernel.kernel.KERNEL", [*KERNEL, newer])
    for words in LOOKING:
        assert f"this code needs {newer.version}; run holdfast migrate." in here.refused(*words.split()), words
    assert here.on_shop("migrate", "--check").exit_code == 1
    assert names_in(here) == before
    assert (here.on_shop("worker", "--once").exit_code, names_in(here)) == (1, before)
    assert Place(here.env | {"HOLDFAST_AUTO_MIGRATE": "true"}).on_shop("worker", "--once").exit_code == 0
    assert names_in(here) != before
    assert here.on_shop("migrate", "--check").exit_code == 0


@pytest.mark.spec("K19")
@pytest.mark.parametrize("words", ["worker --once", "relay --once", "worker", "relay", "serve"])
def test_who_starts_work_makes_no_tables_unless_the_setting_says_so(here: Place, words: str) -> None:
    strict = Place(here.env | {"HOLDFAST_AUTO_MIGRATE": "auto" if _is_postgres(here) else "false"})
    done = strict.on_shop(*words.split())
    assert done.exit_code == 1
    assert "The database of 'shop' has no Holdfast tables; run holdfast migrate." in done.stderr
    assert names_in(here) == []
    willing = Place(here.env | {"HOLDFAST_AUTO_MIGRATE": "true"}) if _is_postgres(here) else here  # a new file is made
    if "--once" in words:
        willing.ok(*words.split())
        assert here.items("jobs", "list") == []


def _is_postgres(place: Place) -> bool:
    return place.env["DATABASE_URL"].startswith("postgres")


@pytest.mark.spec("K19")
def test_the_printed_sql_does_what_migrate_does(here: Place) -> None:
    here.ok("migrate")
    wanted = names_in(here)
    url = here.env["DATABASE_URL"]
    if url.startswith("postgres"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        text = here.ok("migrate", "--print")
        assert names_in(here) == []
        assert "SET LOCAL lock_timeout = '1000ms';" in text, "a step waits for its lock, and not for the whole time"
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in text.split(";\n"):  # as psql does, which sends them one by one
                connection.execute(statement.encode())
    else:
        Path(url.removeprefix("sqlite:///")).unlink()
        text = here.ok("migrate", "--sql")
        assert names_in(here) == []
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.executescript(text)
    assert names_in(here) == wanted
    assert here.ok("migrate", "--check") == "shop: up to date\n"
    assert here.ok("migrate", "--print") == "-- shop: up to date\n"
    assert here.json("migrate", "--print") == {"shop": ""}


@pytest.mark.spec("K19")
def test_check_names_what_is_pending(here: Place) -> None:
    pending = here.on_shop("migrate", "--check")
    assert (pending.exit_code, pending.stdout) == (1, f"shop: pending: {', '.join(NAMES)}\n")
    pending = here.on_shop("migrate", "--check", "--json")
    assert (pending.exit_code, json.loads(pending.stdout)) == (1, {"shop": NAMES})
    assert here.json("migrate") == {"shop": NAMES}
    assert here.json("migrate", "--check") == {"shop": []}


@pytest.mark.spec("K19")
def test_two_apps_in_one_database_are_listed_once(here: Place) -> None:
    here.job(shop.Pay, 5)
    here.job(shop.Collect, 6, work=False)
    both = (*APP, *RIVAL, "--json")
    jobs = json.loads(here.run("jobs", "list", *both).stdout)["items"]
    assert sorted((job["system"], job["kind"]) for job in jobs) == [
        ("shop,rival", "rival.collect"),
        ("shop,rival", "shop.pay"),
    ]
    (waiting,) = (job["id"] for job in jobs if job["kind"] == "rival.collect")
    assert here.run("jobs", "cancel", waiting, *both).exit_code == 0
    assert json.loads(here.run("worker", "--once", *both[:-1]).stdout.split()[0]) == 0
    assert here.run("breakers", "open", "bank", *both).exit_code == 0, "one row, so nobody need choose"
    listed = json.loads(here.run("breakers", "list", *both).stdout)["items"]
    assert sorted(row["name"] for row in listed) == ["bank", "post"], "each once"


@pytest.mark.spec("K19")
def test_systems_that_were_never_used_are_left_out_of_a_list_of_all(place: Place) -> None:
    assert "conversion" in (refused := place.run("jobs", "list").stderr), "it says what it asked for"
    assert refused.endswith("; run holdfast migrate, or name your own app with --app.\n")
    assert place.run("migrate", "--system", "review").exit_code == 0
    found = place.run("jobs", "list", "--json")
    assert (found.exit_code, json.loads(found.stdout)) == (0, {"items": [], "next": None})
    assert "Left out" in found.stderr and "conversion" in found.stderr and "review" not in found.stderr


GRANTS = """
CREATE ROLE clerk LOGIN;
GRANT USAGE ON SCHEMA public TO clerk;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO clerk;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO clerk;
CREATE ROLE guest LOGIN;
GRANT USAGE ON SCHEMA public TO guest;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO guest;
ALTER ROLE guest SET default_transaction_read_only = on;
"""


@pytest.mark.slow
@pytest.mark.spec("K19")
def test_work_needs_the_right_to_write_rows_and_looking_only_to_read_them(place: Place, postgres_url: str) -> None:
    """PostgreSQL only: SQLite has no roles. A role that may only read meets what a standby says."""
    owner = Place(place.env | {"DATABASE_URL": postgres_url})
    owner.ok("migrate")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(GRANTS)
        try:
            clerk = Place(place.env | {"DATABASE_URL": postgres_url.replace("holdfast@", "clerk@")})
            guest = Place(place.env | {"DATABASE_URL": postgres_url.replace("holdfast@", "guest@")})
            job = clerk.job(shop.Pay, 5)
            assert clerk.json("jobs", "show", job)["state"] == "succeeded"
            assert clerk.ok("migrate") == "shop: up to date\n"
            for words in LOOKING[:-1]:
                assert guest.on_shop(*words.split()).exit_code == 0, words
            assert guest.json("jobs", "show", job)["state"] == "succeeded"
            assert guest.ok("migrate", "--check") == "shop: up to date\n"
        finally:
            connection.execute("DROP OWNED BY clerk, guest; DROP ROLE clerk, guest")

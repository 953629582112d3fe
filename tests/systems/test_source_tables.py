"""What the sources say about tables and settings, looked up in the databases and the settings themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.engines.run import prepare
from holdfast.main import close_systems, open_systems
from holdfast.settings import Settings, read
from holdfast.system import OpenSystem
from tests.kernel.places import rows

COLUMNS = {
    "sqlite": "SELECT name FROM pragma_table_info('{table}')",
    "postgres": "SELECT attname AS name FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0",
}
UNIQUE = {
    "sqlite": """SELECT i.name AS name, c.name AS column_name FROM pragma_index_list('{table}') AS i,
                 pragma_index_info(i.name) AS c WHERE i."unique" = 1""",
    "postgres": """SELECT i.indexrelid::regclass::text AS name, a.attname AS column_name FROM pg_index AS i
                   JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
                   WHERE i.indrelid = '{table}'::regclass AND i.indisunique""",
}
INDEXES = {
    "sqlite": "SELECT sql AS ddl FROM sqlite_master WHERE type = 'index' AND tbl_name = '{table}' AND sql IS NOT NULL",
    "postgres": "SELECT indexdef AS ddl FROM pg_indexes WHERE tablename = '{table}' AND schemaname = current_schema()",
}


@pytest.fixture(params=["sqlite", "postgres"])
async def systems(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[dict[str, OpenSystem]]:
    """Every system by its name, each on a migrated database."""
    env = {"HOLDFAST_DATA_DIR": str(tmp_path)}
    if request.param == "postgres":
        shared = request.getfixturevalue("postgres_url")
        apart = {"MAIN_DATABASE_URL": "main", "GRADING_DATABASE_URL": "service", "DATABASE_URL": "rest"}
        env |= {name: f"{shared}?search_path={schema}" for name, schema in apart.items()}
    opened = await open_systems(read(Settings, env), env, ["grading-main", "grading-service", "conversion", "review"])
    for system in opened:
        await system.kernel.migrate()
        await prepare(system.kernel)
    yield {system.name: system for system in opened}
    await close_systems(opened)


async def look(system: OpenSystem, asked: dict[str, str], table: str) -> list[dict[str, object]]:
    store = system.kernel.store
    return await rows(store, asked[store.dialect].format(table=table))


async def unique(system: OpenSystem, table: str) -> list[list[str]]:
    """The columns of each unique index of a table."""
    found: dict[str, list[str]] = {}
    for row in await look(system, UNIQUE, table):
        found.setdefault(str(row["name"]), []).append(str(row["column_name"]))
    return list(found.values())


@pytest.mark.spec("000.6")
async def test_an_outbox_row_has_the_sources_fields(systems: dict[str, OpenSystem]) -> None:
    named = {str(row["name"]) for row in await look(systems["grading-main"], COLUMNS, "holdfast_outbox")}
    asked = "id aggregate_id message_type payload status created_at processed_at retry_count error_message"
    assert set(asked.split()) <= named


@pytest.mark.spec("003.9", "003.5", "003.6", "004.19")
async def test_what_may_be_there_once_is_kept_so_by_the_database(systems: dict[str, OpenSystem]) -> None:
    main, service, review = systems["grading-main"], systems["grading-service"], systems["review"]
    assert ["request_id"] in await unique(main, "submissions")
    assert ["request_id"] in await unique(service, "grading_jobs")
    assert ["event_id"] in await unique(main, "processed_callbacks")
    assert ["event_id"] in await unique(main, "submission_events")
    assert ["idempotency_key"] in await unique(review, "reviews")
    assert ["idempotency_key"] in await unique(review, "review_keys")


@pytest.mark.spec("001.10")
async def test_an_index_holds_what_is_queued_by_the_time_it_is_due(systems: dict[str, OpenSystem]) -> None:
    indexes = [str(row["ddl"]) for row in await look(systems["conversion"], INDEXES, "holdfast_jobs")]
    assert any("(queue, priority" in ddl and "queued" in ddl for ddl in indexes), indexes
    assert any("run_at" in ddl and "queued" in ddl for ddl in indexes), indexes


@pytest.mark.spec("000.3", "000.4", "001.21")
def test_the_intervals_are_the_sources_and_can_be_set() -> None:
    plain = read(Settings, {})
    assert (plain.outbox_poll_ms, plain.outbox_batch, 1 <= plain.poll_s <= 2) == (5_000, 50, True)
    turned = read(Settings, {"OUTBOX_POLL_INTERVAL_MS": "700", "OUTBOX_BATCH_SIZE": "7", "HOLDFAST_POLL_SEC": "1.5"})
    assert (turned.outbox_poll_ms, turned.outbox_batch, turned.poll_s) == (700, 7, 1.5)

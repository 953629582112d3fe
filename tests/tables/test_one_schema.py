"""Every statement asks tables of one schema and no others, as PostgreSQL itself resolves them; and none does what an
engine that places a schema on a node (Citus 12 and later) refuses.

The schema is what all tables of a deployment are distributed by. No column would do: a claim looks for the oldest of a
lane, whoever's it is (`test_shards.py` says which statements would cross shards of rows).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from holdfast.stores.postgres import PostgresStore
from holdfast.tables import search
from holdfast.tables.schema import KERNEL
from tests.tables.test_shards import statements

SCHEMA = "shard_one"
STATISTICS = {"horizon.holder", "horizon.dead_versions", "outbox.writers"}  # PostgreSQL's own, of the node asked
_FUNCTION = re.compile(r"\b([a-z_]+)\(")
_PART = re.compile(r"\b(SELECT|VALUES|SET|WHERE|ON CONFLICT|RETURNING|ORDER BY|LIMIT)\b")
_VOLATILE = "SELECT DISTINCT proname FROM pg_proc WHERE provolatile = 'v' AND pronamespace = 'pg_catalog'::regnamespace"
_CHANGING = (
    "SELECT DISTINCT proname FROM pg_proc WHERE provolatile <> 'i' AND pronamespace = 'pg_catalog'::regnamespace"
)


def texts() -> dict[str, str]:
    """Each statement by its name; one that is put together, with the fewest lines and with a declared field."""
    found = {name: each.postgres for name, each in statements().items()}
    found["search.jobs_matching"] = search.sql.choose(search.sql.jobs_matching, {"any", "within"}).postgres
    found["search.jobs_matching of a field"] = search.sql.choose(search.sql.jobs_matching, {"field", "within"}).postgres
    return found


@pytest.mark.spec("K29")
async def test_every_statement_stays_in_the_schema_of_its_deployment(postgres_url: str) -> None:
    """The plans name the relations that views lead to as well; nothing of ours lies in `public`."""
    store = PostgresStore(f"{postgres_url}?search_path={SCHEMA}")
    await store.migrate(KERNEL)
    await store.close()
    asked: dict[str, set[str]] = {}
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"SET search_path = {SCHEMA}")
        connection.execute("SET plan_cache_mode = force_generic_plan")  # what it may ask, whatever is asked for
        for name, text in texts().items():
            connection.execute(f"PREPARE statement AS {text}".encode())
            values = ["NULL"] * len(set(re.findall(r"\$\d+", text)))
            given = f"({', '.join(values)})" if values else ""
            plan = connection.execute(f"EXPLAIN (VERBOSE, FORMAT JSON) EXECUTE statement{given}".encode()).fetchone()
            asked[name] = set(schemas_in(plan))
            connection.execute("DEALLOCATE statement")
    assert {name: schemas for name, schemas in asked.items() if schemas - {SCHEMA} and name not in STATISTICS} == {}
    assert asked["jobs.turn"] == asked["providers.read"] == {SCHEMA}, "the plans show no schema at all"


@pytest.mark.spec("K29")
def test_no_statement_changes_rows_by_a_function_that_a_sharding_engine_refuses(postgres_server: Any) -> None:
    """Citus takes no volatile function where rows are changed, and in a RETURNING none but immutable ones; in what is
    selected afterwards it may stand (a ring)."""
    with psycopg.connect(postgres_server.url()) as connection:
        volatile = {name for (name,) in connection.execute(_VOLATILE).fetchall()}
        changing = {name for (name,) in connection.execute(_CHANGING).fetchall()}
    refused = {name: bad for name, text in texts().items() if (bad := sorted(refusals(text, volatile, changing)))}
    assert refused == {}
    assert refusals("UPDATE t SET a = random()", volatile, changing) == {"random in SET"}
    assert refusals("INSERT INTO t VALUES ($1) RETURNING to_jsonb(a)", volatile, changing) == {"to_jsonb in RETURNING"}
    assert "pg_notify" in volatile and "pg_notify(" in texts()["new_jobs.insert_one"]


def refusals(text: str, volatile: set[str], changing: set[str]) -> set[str]:
    """Functions of a statement with the part that they stand in, where they may not."""
    found: set[str] = set()
    for call in _FUNCTION.finditer(text):
        parts = _PART.findall(text[: call.start()])
        part = parts[-1] if parts else ""
        unfit = changing if part == "RETURNING" else volatile if part != "SELECT" else set[str]()
        if call[1] in unfit and re.search(r"\b(INSERT|UPDATE|DELETE)\b", text):
            found.add(f"{call[1]} in {part}")
    return found


def schemas_in(plan: Any) -> Iterator[str]:
    if isinstance(plan, dict):
        if "Relation Name" in plan:
            yield plan["Schema"]
        plan = list(plan.values())
    if isinstance(plan, list | tuple):
        for part in plan:
            yield from schemas_in(part)

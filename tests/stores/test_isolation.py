"""Sessions work with the isolation that they are made for, whatever the database was given as its default."""

from __future__ import annotations

import asyncpg
import pytest

from holdfast.stores.migration import Patience
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.statement import Migration, statement_of

QUICK = Patience(lock_s=0.1, wait_s=0.5)


@pytest.mark.spec("K19", "K28")
@pytest.mark.parametrize("level", ["serializable", "repeatable read"])
async def test_a_database_that_isolates_strictly_changes_nothing(postgres_url: str, level: str) -> None:
    """The transaction that holds the turn must have no snapshot that the building of an index waits for."""
    admin = await asyncpg.connect(postgres_url)
    name = postgres_url.rpartition("/")[2]
    await admin.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = '{level}'")
    await admin.close()
    store = PostgresStore(postgres_url)
    first = Migration("holdfast", 1, "CREATE TABLE holdfast_jobs (owner TEXT);\n")
    index = Migration("holdfast", 2, "-- concurrently\nCREATE INDEX holdfast_jobs_by_owner ON holdfast_jobs (owner);\n")
    assert await store.migrate([first, index], QUICK) == [first.name, index.name]
    asked = statement_of("SELECT current_setting('transaction_isolation') AS level")
    for way in (store.single_statement, store.reading, store.transaction):
        async with way() as tx:
            assert (await tx.rows(asked))[0]["level"] == "read committed"
    await store.close()

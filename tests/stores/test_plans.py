"""What is a statement of its own is planned once a session; what stands in a transaction or reads, each time."""

from __future__ import annotations

import pytest

from holdfast.stores.connecting import Connecting
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.statement import statement_of

COUNT = statement_of(
    "SELECT COUNT(*) AS n FROM unnest(CAST(:keys AS TEXT[])) AS a CROSS JOIN unnest(CAST(:keys AS TEXT[])) AS b"
)
PLANS = statement_of(
    "SELECT generic_plans AS once, custom_plans AS each_time FROM pg_prepared_statements WHERE statement LIKE :like"
)


@pytest.mark.slow
async def test_a_single_statement_is_planned_once_and_a_list_each_time(postgres_url: str) -> None:
    store = PostgresStore(postgres_url, connecting=Connecting(connections=1))

    async def plans() -> tuple[int, int]:
        async with store.reading() as tx:
            (row,) = await tx.rows(PLANS, like="SELECT COUNT%")
        return row["once"], row["each_time"]

    for _ in range(7):
        async with store.single_statement() as tx:
            await tx.rows(COUNT, keys=["a"])
    async with store.transaction() as tx:  # right after a single statement, with nothing in between that reads
        await tx.rows(COUNT, keys=["a"])
    assert await plans() == (7, 1)
    for number in range(4):  # so often it plans anew before it considers anything else
        async with store.reading() if number % 2 else store.transaction() as tx:
            await tx.rows(COUNT, keys=["a"])
    assert await plans() == (7, 5)
    await store.close()

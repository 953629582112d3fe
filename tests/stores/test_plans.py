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


@pytest.mark.slow
@pytest.mark.spec("K28")
async def test_what_is_read_together_beside_single_statements_is_one_transaction(postgres_url: str) -> None:
    """As a worker and its sweeps have it: they share a session, and an idle fleet is counted by its transactions."""
    store = PostgresStore(postgres_url, connecting=Connecting(connections=1))
    began = statement_of("SELECT pg_current_xact_id() AS own, current_setting('plan_cache_mode') AS plans")
    async with store.reading() as tx:  # a session that has planned nothing once, as a keeper's may be
        alone, *rest = [(await tx.rows(began))[0]["own"] for _ in range(5)]
    assert len({*rest}) == 1 and alone != rest[0]
    with pytest.raises(RuntimeError):
        async with store.reading() as tx:
            for _ in range(2):
                await tx.rows(began)
            raise RuntimeError("a reader that breaks off leaves no transaction open")
    numbers = []
    for _ in range(3):
        async with store.single_statement() as tx:
            (once,) = await tx.rows(began)
        async with store.reading() as tx:
            (first,), (second,) = await tx.rows(began), await tx.rows(began)
        assert first["own"] == second["own"]
        assert (once["plans"], first["plans"]) == ("force_generic_plan", "auto")
        numbers += [int(once["own"]), int(first["own"])]
    assert numbers == list(range(numbers[0], numbers[0] + 6))
    await store.close()

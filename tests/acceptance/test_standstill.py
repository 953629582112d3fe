"""A process that stands still inside a transaction does not keep its rows locked for ever."""

from __future__ import annotations

import asyncpg
import pytest

from holdfast.stores.postgres import PostgresStore
from tests.acceptance.deployment import IDLE_LIMIT, Deployment
from tests.acceptance.process import until

pytestmark = pytest.mark.slow

ASKED = "SHOW idle_in_transaction_session_timeout"


@pytest.mark.spec("K3")
async def test_a_session_may_be_idle_in_a_transaction_for_30_s_unless_the_database_says_otherwise(
    postgres_url: str, site: Deployment
) -> None:
    for url, limit in ((postgres_url, "30s"), (site.url, IDLE_LIMIT)):
        store = PostgresStore(url)
        async with store.reading() as tx:
            assert await tx.connection.fetchval(ASKED) == limit
        await store.close()


@pytest.mark.spec("K3")
async def test_a_session_that_stands_still_in_the_middle_of_a_statement_is_ended_by_another_process(
    site: Deployment,
) -> None:
    stuck = await asyncpg.connect(site.url, server_settings={"application_name": "holdfast"})
    stranger = await asyncpg.connect(site.url, server_settings={"application_name": "psql"})
    for connection in (stuck, stranger):
        await connection.execute("BEGIN")
        await connection.prepare("SELECT 1")  # parsed, and not yet bound: PostgreSQL waits, and does not call it idle
    store = PostgresStore(site.url)
    store.listen("anything")

    async def ended() -> bool:
        return stuck.is_closed()

    await until(ended, "the session to be ended")
    assert not stranger.is_closed(), "only sessions of ours are ended"
    stranger.terminate()
    await store.close()

"""A role without the right to change tables is enough for everything but `holdfast migrate`."""

from __future__ import annotations

import psycopg
import pytest

from holdfast import Client
from holdfast.engines.run import prepare
from holdfast.engines.worker import Worker
from holdfast.errors import StoreForbidden
from holdfast.main import open_kernel
from holdfast.settings import Settings, read
from tests.door.test_guest import Thank, app

pytestmark = pytest.mark.spec("K19")
CLERK = """GRANT USAGE ON SCHEMA jobs TO clerk;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA jobs TO clerk;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA jobs TO clerk"""  # as docs/how-to/be-a-guest-in-a-database.md says


@pytest.mark.slow
async def test_a_role_that_may_only_read_and_write_rows_does_all_the_work(postgres_url: str) -> None:
    kernel = open_kernel(read(Settings, {"DATABASE_URL": postgres_url}), [app])
    await kernel.migrate()
    await kernel.store.close()
    clerk = open_kernel(read(Settings, {"DATABASE_URL": postgres_url.replace("holdfast@", "clerk@")}), [app])
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute("CREATE ROLE clerk LOGIN")
        try:
            with pytest.raises(StoreForbidden, match=r"lacks a right \(permission denied for schema jobs\)"):
                await prepare(clerk)
            owner.execute(CLERK)
            assert await prepare(clerk) == []
            client = Client(clerk)
            job_ids = await client.enqueue_many(Thank, [str(number) for number in range(120)])
            assert await Worker(clerk).run_until_idle() == 120
            assert (await client.status(job_ids[-1])).state == "succeeded"
        finally:
            await clerk.store.close()
            owner.execute("DROP OWNED BY clerk; DROP ROLE clerk")

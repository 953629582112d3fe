"""A process that meets a standby waits for it to be promoted, as it waits for a server that is away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from holdfast.kernel.submit import submit
from tests.acceptance.apps.gated import Name, gated
from tests.acceptance.deployment import Deployment, all_ended, kind
from tests.acceptance.grading_site import PATIENCE_S
from tests.acceptance.process import until
from tests.acceptance.test_stopping import holds
from tests.services.postgres import PostgresServer

pytestmark = pytest.mark.slow


@pytest.fixture
def standby(postgres_server: PostgresServer, site: Deployment) -> Iterator[PostgresServer]:
    """Has the site's database as it was when the test began."""
    server = PostgresServer()
    server.begin_as_standby(postgres_server)
    yield server
    server.stop()


@pytest.mark.spec("K28")
async def test_a_worker_waits_for_a_standby_to_be_promoted(site: Deployment, standby: PostgresServer) -> None:
    there = replace(site, url=standby.url(site.url.rpartition("/")[2]), server=standby, processes=[])
    there.ledger.note("open")
    worker = there.worker("gated")

    async def met() -> bool:
        assert worker.exit_code() is None, worker.tail()
        return holds(worker.log, "is a standby and takes no writes until it is promoted")

    await until(met, "the worker to meet the standby", PATIENCE_S, process=worker)
    await asyncio.to_thread(standby.promote)
    async with there.kernel(gated) as kernel:
        await submit(kernel, kind(kernel, "long"), Name("after the failover"))
        await until(lambda: all_ended(kernel), "the job to end", PATIENCE_S, process=worker)
    assert await worker.end() == 0, worker.tail()

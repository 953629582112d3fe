"""A primary and a standby that it waits for: the standby is promoted under load, and nothing acknowledged is lost.
A replica serves whoever only looks."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.request import urlopen

import psycopg
import pytest

from holdfast.errors import StoreError
from holdfast.kernel.submit import submit
from tests.acceptance.apps.orders import OrderIn
from tests.acceptance.deployment import Deployment, all_ended, kind, rows
from tests.acceptance.process import Process, until
from tests.acceptance.test_pooler import more_acked
from tests.acceptance.test_restarts import Told, client, noticed
from tests.acceptance.test_stopping import holds
from tests.acceptance.verify import verify
from tests.services.child import free_ports
from tests.services.postgres import PostgresServer

pytestmark = pytest.mark.slow

LONG_S = 90.0


@dataclass
class Pair:
    primary: PostgresServer
    standby: PostgresServer
    site: Deployment
    """By a URL that names both."""


@pytest.fixture
def pair(site: Deployment) -> Iterator[Pair]:
    """A cluster of its own, with a copy of the site's empty tables, and a standby that each commit waits for."""
    primary, standby = PostgresServer(), PostgresServer()
    try:
        primary.begin()
        url = primary.create_database()
        standby.begin_as_standby(primary, name="other")
        with psycopg.connect(primary.url(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'other'")
            connection.execute("SELECT pg_reload_conf()")
        both = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        name = url.rpartition("/")[2]
        there = f"postgresql://holdfast@{both}/{name}?target_session_attrs=read-write"
        yield Pair(primary, standby, replace(site, url=there, server=None, processes=[]))
    finally:
        primary.stop()
        standby.stop()


async def has_said(process: Process, text: str) -> None:
    async def said() -> bool:
        assert process.exit_code() is None, process.tail()
        return holds(process.log, text)

    await until(said, f"'{text}'", LONG_S, process=process)


@pytest.mark.spec("K28", "K1")
async def test_a_replica_serves_and_takes_over_under_load_with_nothing_lost(pair: Pair) -> None:
    site = pair.site
    migrated = site.start("migrate")
    assert await migrated.until_ended() == 0, migrated.tail()
    async with site.kernel() as kernel:
        await submit(kernel, kind(kernel, "order"), OrderIn(999_999_999))  # no number of a client's
    pair.primary.halt(immediate=True)
    await a_replica_serves_whoever_only_looks(pair)
    pair.primary.resume()
    await a_promotion_under_load_loses_nothing(pair)


async def a_promotion_under_load_loses_nothing(pair: Pair) -> None:
    site = pair.site
    worker = site.worker(WORKER_LEASE_TTL_SEC="4")
    told, stop = Told(), asyncio.Event()
    async with site.kernel() as kernel:
        async with asyncio.TaskGroup() as group:
            for name in range(4):
                group.create_task(client(kernel, name, told, stop))
            await more_acked(told)
            await asyncio.to_thread(pair.primary.halt, immediate=True)
            late = site.worker(WORKER_LEASE_TTL_SEC="4")  # begins with a standby, and no server that takes writes
            await has_said(late, "store.unreachable")
            await noticed(told)
            assert "Traceback" not in late.log.read_text()
            await asyncio.to_thread(pair.standby.promote)
            await more_acked(told)
            stop.set()

        async def ended() -> bool:
            try:
                return await all_ended(kernel)
            except StoreError:
                return False

        await until(ended, "all jobs to end on the new primary", LONG_S, process=worker)
        for each in (worker, late):
            assert await each.end() == 0, each.tail()
        known = await rows(kernel, "SELECT CAST(id AS TEXT) AS id, job_key FROM holdfast_jobs WHERE job_key LIKE '%:%'")
        found = {row["job_key"]: row["id"] for row in known}
        assert {key: found.get(key) for key in told.acked} == told.acked, "acknowledged and lost"
        await verify(site, kernel)
    await asyncio.to_thread(pair.standby.halt, immediate=True)
    lost = site.worker()  # none of the hosts is there
    await has_said(lost, "cannot be reached")
    assert f"127.0.0.1:{pair.primary.port} or 127.0.0.1:{pair.standby.port}" in lost.log.read_text()
    assert "Traceback" not in lost.log.read_text()
    lost.send(signal.SIGKILL)


async def a_replica_serves_whoever_only_looks(pair: Pair) -> None:
    site = pair.site
    replica = {"HOLDFAST_READ_ONLY_URL": f"postgresql://holdfast@127.0.0.1:{pair.standby.port}"}
    looks = {
        "list": site.start("jobs", "list", "--json", **replica),
        "audit": site.start("audit", "--json", **replica),
    }
    for process in looks.values():
        assert await process.until_ended() == 0, process.tail()
    (listed,) = json.loads(looks["list"].log.read_text().splitlines()[-1])["items"]
    assert listed["kind"] == "orders.order"
    (port,) = free_ports(1)
    server = site.start("serve", "--read-only", HOLDFAST_PORT=str(port), **replica)

    async def ready() -> bool:
        assert server.exit_code() is None, server.tail()
        try:
            with await asyncio.to_thread(urlopen, f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    await until(ready, "the console to be ready on the replica", LONG_S, process=server)
    with await asyncio.to_thread(urlopen, f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        assert 'state="queued"' in answer.read().decode()
    connect = site.start("check", "--connect", **replica)
    assert await connect.until_ended() == 1, "the primary is away"
    said = connect.log.read_text()
    assert "replica postgresql://" in said and "a standby" in said and "cannot be reached" in said, said
    assert await server.end() == 0, server.tail()

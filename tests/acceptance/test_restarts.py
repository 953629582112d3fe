"""The database restarts under load, and workers are told to stop: nothing acknowledged is lost, nothing is blamed."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast.errors import StoreError
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.submit import submit
from holdfast.tables import new_jobs
from tests.acceptance.apps.gated import Name, gated
from tests.acceptance.apps.orders import OrderIn
from tests.acceptance.deployment import Deployment, all_ended, kind, rows
from tests.acceptance.process import Process, until
from tests.acceptance.test_stopping import said
from tests.acceptance.verify import verify

pytestmark = pytest.mark.slow

RESTARTS = 2
CLIENTS = 3
ACKED_EACH_TIME = 20
LONG_S = 60.0


@dataclass
class Told:
    """What the clients were told: acknowledged ids by key, and how the doubtful ones turned out."""

    acked: dict[str, str] = field(default_factory=dict)
    committed_all_the_same: int = 0
    errors: int = 0


async def client(kernel: Kernel, name: int, told: Told, stop: asyncio.Event) -> None:
    """Enqueue until told to stop. After an error, ask by key: an error does not mean that nothing was done."""
    number = 0
    while not stop.is_set():
        key = f"{name}:{number}"
        try:
            told.acked[key] = await submit(kernel, kind(kernel, "order"), OrderIn(name * 100_000 + number), key=key)
        except StoreError:
            told.errors += 1
            if await by_key(kernel, key) is None:
                continue  # not accepted: the same key again
            told.committed_all_the_same += 1
        number += 1


async def noticed(told: Told) -> None:
    """Wait until a client has met the outage: what is over before anybody asks has tested nothing."""

    async def failed() -> bool:
        return told.errors > 0

    await until(failed, "a client to notice that the database is away")


async def by_key(kernel: Kernel, key: str) -> Any:
    async def asked() -> tuple[Any] | None:
        try:
            async with kernel.store.reading() as tx:
                return (await new_jobs.by_key(tx, "orders.order", key),)
        except StoreError:
            return None

    (found,) = await until(asked, "the database to answer")
    return found


@pytest.mark.spec("K1", "K3", "K19")
async def test_immediate_restarts_of_postgresql_lose_nothing_that_was_acknowledged(site: Deployment) -> None:
    assert site.server is not None
    told, stop = Told(), asyncio.Event()
    workers = [site.worker(WORKER_LEASE_TTL_SEC="4") for _ in range(2)]
    for worker in workers:
        await said(worker, "worker.started")  # one that has not begun gives up after ten seconds without a database
    async with site.kernel() as kernel:
        async with asyncio.TaskGroup() as group:
            for name in range(CLIENTS):
                group.create_task(client(kernel, name, told, stop))
            for _ in range(RESTARTS):
                await _more_acked(told)
                told.errors = 0
                await asyncio.to_thread(site.server.halt, immediate=True)  # the clients go on meanwhile
                await noticed(told)
                site.server.resume()
            await _more_acked(told)
            stop.set()

        async def ended() -> bool:
            try:
                return await all_ended(kernel)
            except StoreError:
                return False

        await until(ended, "the workers to recover by themselves", LONG_S, process=workers[0])
        assert [worker.exit_code() for worker in workers] == [None, None], "a worker did not survive the restart"
        for worker in workers:
            assert await worker.end() == 0, worker.tail()
        known = await rows(kernel, "SELECT CAST(id AS TEXT) AS id, job_key FROM holdfast_jobs WHERE job_key LIKE '%:%'")
        found = {row["job_key"]: row["id"] for row in known}
        assert {key: found.get(key) for key in told.acked} == told.acked, "acknowledged and lost"
        await verify(site, kernel)


async def _more_acked(told: Told) -> None:
    goal = len(told.acked) + ACKED_EACH_TIME

    async def reached() -> bool:
        return len(told.acked) >= goal

    await until(reached, f"{goal} acknowledged jobs")


async def in_flight(site: Deployment, kernel: Kernel, worker: Process, name: str) -> None:
    """The job is in the middle of its stage."""
    await submit(kernel, kind(kernel, "long"), Name(name))

    async def begun() -> bool:
        return f"began {name}" in site.ledger.notes()

    await until(begun, f"the job {name} to begin", process=worker)


async def the_job(kernel: Kernel, name: str) -> dict[str, Any]:
    asked = "SELECT state, attempt, failures, crashes, lease_owner, payload FROM holdfast_jobs"
    (found,) = [row for row in await rows(kernel, asked) if name in row.pop("payload")]
    return found


@pytest.mark.spec("K16")
async def test_a_worker_told_to_stop_finishes_what_it_has_begun_and_begins_nothing(site: Deployment) -> None:
    worker = site.worker("gated")
    async with site.kernel(gated) as kernel:
        await in_flight(site, kernel, worker, "first")
        worker.send(signal.SIGTERM)
        await worker.until_taken(signal.SIGTERM)
        await submit(kernel, kind(kernel, "long"), Name("second"))
        site.ledger.note("open")
        assert await worker.until_ended() == 0, worker.tail()
        first, second = await the_job(kernel, "first"), await the_job(kernel, "second")
        assert first == {"state": "succeeded", "attempt": 1, "failures": 0, "crashes": 0, "lease_owner": None}
        assert (second["state"], second["failures"], second["crashes"]) == ("queued", 0, 0)
        assert "began second" not in site.ledger.notes()


@pytest.mark.spec("K16")
async def test_a_job_that_outlasts_the_grace_time_is_given_back_uncounted(site: Deployment) -> None:
    worker = site.worker("gated", HOLDFAST_GRACE_SEC="0.3")
    async with site.kernel(gated) as kernel:
        await in_flight(site, kernel, worker, "first")
        worker.send(signal.SIGTERM)
        assert await worker.until_ended() == 0, worker.tail()
        job = await the_job(kernel, "first")
        assert job == {"state": "queued", "attempt": 1, "failures": 0, "crashes": 0, "lease_owner": None}
        told = [row["type"] for row in await rows(kernel, "SELECT type FROM holdfast_job_events ORDER BY seq")]
        assert told == ["claimed", "released"]


@pytest.mark.spec("K16")
async def test_a_second_signal_ends_at_once_and_loses_nothing(site: Deployment) -> None:
    worker = site.worker("gated", HOLDFAST_GRACE_SEC="600")
    async with site.kernel(gated) as kernel:
        await in_flight(site, kernel, worker, "first")
        worker.send(signal.SIGTERM)
        await worker.until_taken(signal.SIGTERM)
        worker.send(signal.SIGTERM)
        assert await worker.until_ended(5) == -signal.SIGTERM, worker.tail()
        assert (await the_job(kernel, "first"))["state"] == "processing"
        site.ledger.note("open")
        other = site.worker("gated")

        async def ended() -> bool:
            return await all_ended(kernel)

        await until(ended, "the lease to be reaped and the job to be finished", process=other)
        job = await the_job(kernel, "first")
        assert (job["state"], job["attempt"], job["crashes"]) == ("succeeded", 2, 1)
        assert await other.end() == 0


@pytest.mark.spec("K3", "K19")
async def test_two_workers_share_an_sqlite_file_and_one_is_killed(embedded_site: Deployment) -> None:
    site = embedded_site
    workers = [site.worker() for _ in range(2)]
    async with site.kernel() as kernel:
        for number in range(40):
            await submit(kernel, kind(kernel, "order"), OrderIn(number), key=f"order:{number}")

        async def some() -> bool:
            found = await rows(kernel, "SELECT COUNT(*) AS n FROM holdfast_jobs WHERE state = 'succeeded'")
            return bool(found[0]["n"] >= 5)

        await until(some, "some jobs to succeed", process=workers[0])
        workers[0].send(signal.SIGKILL)
        assert await workers[0].until_ended() == -signal.SIGKILL

        async def ended() -> bool:
            return await all_ended(kernel)

        await until(ended, "the other worker to finish", LONG_S, process=workers[1])
        assert await workers[1].end() == 0, workers[1].tail()
        await verify(site, kernel)
    with sqlite3.connect(site.url.removeprefix("sqlite:///")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

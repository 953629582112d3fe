"""/readyz tries a write and says in words what is wrong; and it lists what this process does, and what waits."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import patch

import httpx
import psycopg
import pytest
from tests.http.wishes import app, web_for

from holdfast import App
from holdfast.errors import (
    StoreConflict,
    StoreForbidden,
    StoreFull,
    StoreReadOnly,
    StoreStandby,
    StoreStarting,
    StoreUnavailable,
)
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.operator import outside
from holdfast.operator.attention import Topic
from holdfast.operator.overview import look_at
from holdfast.operator.snapshot import _broker_trouble
from holdfast.settings import Settings
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.seam import Store
from holdfast.stores.sqlite import SqliteStore
from holdfast.system import OpenSystem, System
from holdfast.transports.memory import MemoryTransport
from holdfast.transports.seam import Queue

pytestmark = pytest.mark.spec("K17", "K27")


@asynccontextmanager
async def asking(settings: Settings, kernel: Kernel) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(web_for(settings, kernel))
    async with httpx.AsyncClient(transport=transport, base_url="http://holdfast") as client:
        yield client
    await kernel.store.close()


async def prepared(store: Store) -> Kernel:
    kernel = Kernel(store=store, registry=Registry([app]))
    await kernel.migrate()
    return kernel


async def test_a_database_that_is_written_is_ready_and_looks_as_before(tmp_path: Path, settings: Settings) -> None:
    kernel = await prepared(SqliteStore(tmp_path / "a.db"))
    async with asking(settings, kernel) as client:
        assert (await client.get("/readyz")).json() == {"status": "ready", "systems": {"wishes": "ready"}}
        with sqlite3.connect(tmp_path / "a.db") as other:
            assert other.execute("SELECT COUNT(*) FROM holdfast_worker_signs").fetchone() == (0,)


async def test_a_full_disk_is_called_that(tmp_path: Path, settings: Settings) -> None:
    store = SqliteStore(tmp_path / "a.db")
    kernel = await prepared(store)
    await store._writer.execute("DELETE FROM holdfast_worker_signs")
    (pages,) = (await store._writer.execute("PRAGMA page_count"))[0]
    await store._writer.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreFull):
        for number in range(10_000):
            await store._writer.execute(
                f"INSERT INTO holdfast_worker_signs (name, seq, seen_at, in_flight) VALUES ('{number:040}', 0, 0, 0)"
            )
    async with asking(settings, kernel) as client:
        with patch.object(outside.socket, "gethostname", lambda: "a-long-name" * 500):  # it needs another page
            answer = await client.get("/readyz")
    assert answer.status_code == 503
    assert "disk full" in answer.json()["systems"]["wishes"]


async def test_a_read_only_database_is_called_that(tmp_path: Path, settings: Settings) -> None:
    store = SqliteStore(tmp_path / "a.db")
    kernel = await prepared(store)
    await store._writer.execute("PRAGMA query_only = ON")
    async with asking(settings, kernel) as client:
        answer = await client.get("/readyz")
        shown = (await client.get("/metrics")).text
    assert answer.status_code == 503
    assert answer.json()["systems"]["wishes"] == "the database is read only"
    assert 'severity="page",subject="",system="wishes",topic="store_down"} 1.0' in shown, "the lights know it too"


@pytest.mark.slow
async def test_a_read_only_postgresql_is_called_that(postgres_url: str, settings: Settings) -> None:
    kernel = await prepared(PostgresStore(postgres_url))
    await kernel.store.close()
    store = PostgresStore(f"{postgres_url}?default_transaction_read_only=on")
    async with asking(settings, Kernel(store=store, registry=Registry([app]))) as client:
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["systems"]["wishes"]) == (503, "the database is read only")


@pytest.mark.slow
async def test_a_role_that_may_only_read_is_called_that(postgres_url: str, settings: Settings) -> None:
    kernel = await prepared(PostgresStore(postgres_url))
    await kernel.store.close()
    role = f"reads_{postgres_url.rpartition('/')[2]}"
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as owner:
        await owner.execute(f"CREATE ROLE {role} LOGIN".encode())
        await owner.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}".encode())
        try:
            store = PostgresStore(postgres_url.replace("holdfast@", f"{role}@"))
            async with asking(settings, Kernel(store=store, registry=Registry([app]))) as client:
                answer = await client.get("/readyz")
        finally:
            await owner.execute(f"DROP OWNED BY {role}".encode())
            await owner.execute(f"DROP ROLE {role}".encode())
    assert answer.status_code == 503
    assert "may not write to the database" in answer.json()["systems"]["wishes"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (StoreFull("PostgreSQL cannot write, its disk is full"), "disk full"),
        (StoreReadOnly("..."), "read only"),
        (StoreStandby("..."), "standby"),
        (StoreStarting("..."), "starts"),
        (StoreForbidden("..."), "permission denied"),
        (StoreConflict("..."), "refuses a write"),
        (StoreUnavailable("..."), "does not answer"),
        (TimeoutError(), "does not answer"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_trouble_has_its_words(error: StoreFull, words: str) -> None:
    assert words in outside.in_words(error)


class AwayTransport(MemoryTransport):
    """Nobody knows that it is away until somebody tries."""

    tried = False

    async def reach(self) -> None:
        self.tried = True

    def trouble(self) -> str | None:
        return "RabbitMQ is away: cannot connect (ConnectionRefusedError)."


class RefusedTransport(MemoryTransport):
    def stalled(self) -> Mapping[str, str]:
        return {"answers": "RabbitMQ refuses this user."}


async def test_duties_are_listed_and_those_that_need_the_broker_wait_with_it(
    tmp_path: Path, settings: Settings
) -> None:
    kernel = await prepared(SqliteStore(tmp_path / "a.db"))
    kernel.transport = MemoryTransport()
    kernel.duties = {"sweep": "running", "relay": "running", "consume answers": "running"}
    async with asking(settings, kernel) as client:
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()["duties"]["wishes"]["relay"]) == (200, "running")
        kernel.duties["prune"] = "failed, runs again in 1 s"
        assert (await client.get("/readyz")).status_code == 200, "nobody waits for that"
        kernel.duties["relay"] = "waits for the broker"
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()["systems"]["wishes"]) == (503, "relay: waits for the broker")
        kernel.duties["relay"] = "running"
        kernel.transport = AwayTransport()
        body = (await client.get("/readyz")).json()
    assert body["code"] == "NOT_READY" and body["duties"]["wishes"]["sweep"] == "running"
    assert "RabbitMQ is away" in body["duties"]["wishes"]["consume answers"]


async def test_a_duty_waits_for_its_queue_alone(tmp_path: Path, settings: Settings) -> None:
    kernel = await prepared(SqliteStore(tmp_path / "a.db"))
    kernel.transport = RefusedTransport()
    kernel.duties = {"relay": "running", "consume answers": "running", "consume others": "running"}
    async with asking(settings, kernel) as client:
        answer = await client.get("/readyz")
    waits = "waits for the broker: RabbitMQ refuses this user"
    assert (answer.status_code, answer.json()["systems"]["wishes"]) == (503, f"consume answers: {waits}")
    assert answer.json()["duties"]["wishes"] == {**kernel.duties, "consume answers": waits}
    assert str(_broker_trouble(kernel)).startswith("'answers' is not consumed: RabbitMQ refuses")


async def test_the_lights_ask_for_a_broker_that_nobody_has_needed_yet(tmp_path: Path, settings: Settings) -> None:
    sender = App("sender", queues=[Queue("sent", sink=True)])
    kernel = Kernel(store=SqliteStore(tmp_path / "a.db"), registry=Registry([sender]))
    await kernel.migrate()
    kernel.transport = transport = AwayTransport()
    _, notices = await look_at(OpenSystem(System("w", "W", "U", build=lambda env: sender), kernel, {}))
    assert [each.topic for each in notices] == [Topic.BROKER]
    assert transport.tried
    await kernel.store.close()

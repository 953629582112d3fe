"""A FastAPI application that runs its jobs by itself, or leaves them to workers elsewhere."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import Depends, FastAPI
from starlette.testclient import TestClient

from holdfast import App, Client, Context, Job, enqueue, stage
from holdfast.contrib.fastapi import Lifespan
from holdfast.errors import BadDeclaration, NotAllowed, SchemaMismatch
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.stores.sqlite import SqliteStore

pytestmark = pytest.mark.spec("K1")
shop = App("shop")


@shop.job()
class Greet(Job[str]):
    @stage()
    async def greet(self, ctx: Context, name: str) -> str:
        return f"hello {name}"


def web_for(path: Path, **given: Any) -> FastAPI:
    web = FastAPI(lifespan=Lifespan(shop, database=f"sqlite:///{path}", **given))

    @web.post("/greetings")
    def greet(name: str) -> dict[str, str]:
        with database(path) as connection:
            connection.execute("BEGIN")
            return {"job": enqueue(connection, Greet, name)}

    @web.get("/greetings/{job_id}")
    def state(job_id: str) -> str:
        with database(path) as connection:
            (found,) = connection.execute("SELECT state FROM holdfast_jobs WHERE id = ?", (job_id,)).fetchone()
            return str(found)

    return web


@contextmanager
def database(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path)
    with connection:
        yield connection
    connection.close()


def migrate(path: Path) -> None:
    asyncio.run(Kernel(store=SqliteStore(path), registry=Registry([shop])).migrate())


def test_the_worker_runs_beside_the_endpoints_and_stops_with_them(tmp_path: Path) -> None:
    migrate(tmp_path / "shop.db")
    with TestClient(web_for(tmp_path / "shop.db", concurrency=2)) as client:
        job_id = client.post("/greetings", params={"name": "ada"}).json()["job"]
        while client.get(f"/greetings/{job_id}").json() != "succeeded":
            pass
    with database(tmp_path / "shop.db") as connection:
        assert connection.execute("SELECT COUNT(*) FROM holdfast_workers WHERE name NOT LIKE 'readyz%'").fetchone() == (
            0,
        )


def test_without_work_nothing_is_run_and_nothing_is_migrated(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with pytest.raises(SchemaMismatch, match="holdfast migrate"), TestClient(web_for(path, work=False)):
        pass
    migrate(path)
    with TestClient(web_for(path, work=False)) as client:
        job_id = client.post("/greetings", params={"name": "ada"}).json()["job"]
        assert client.get(f"/greetings/{job_id}").json() == "queued"


def test_the_applications_own_lifespan_stands_inside(tmp_path: Path) -> None:
    steps: list[str] = []

    @asynccontextmanager
    async def own(web: FastAPI) -> AsyncIterator[dict[str, str]]:
        steps.append("begun")
        yield {"mood": "fine"}
        steps.append("ended")

    with TestClient(web_for(tmp_path / "shop.db", around=own)) as client:
        assert client.app_state == {"mood": "fine"} and steps == ["begun"]
    assert steps == ["begun", "ended"]


def test_endpoints_are_given_a_client(tmp_path: Path) -> None:
    jobs = Lifespan(shop, database=f"sqlite:///{tmp_path / 'shop.db'}", concurrency=2)
    web = FastAPI(lifespan=jobs)

    @web.post("/hello")
    async def hello(name: str, client: Client = Depends(jobs.client)) -> str:  # noqa: B008
        return await client.result(Greet, await client.enqueue(Greet, name), timeout_s=30)

    with pytest.raises(NotAllowed, match="does not run"):
        jobs.client()
    with TestClient(web) as client:
        assert client.post("/hello", params={"name": "ada"}).json() == "hello ada"
    with pytest.raises(NotAllowed, match="does not run"):
        jobs.client()


def test_it_says_what_it_needs() -> None:
    with pytest.raises(BadDeclaration, match="needs the app"):
        Lifespan()

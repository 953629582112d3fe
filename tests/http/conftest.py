"""Fixtures: the wishes system open on either database, and a client that signs in as anyone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from tests.http.described import Described
from tests.http.wishes import SECRET, app, web_for
from tests.services.sqlite import open_migrated

from holdfast.http.auth import token_for
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.settings import Settings
from holdfast.stores.clock import Clock
from holdfast.stores.seam import Store
from holdfast.testing import HandClock
from holdfast.transports.memory import MemoryTransport

OpenStore = Callable[[Clock | None], Store]
Client = Callable[..., httpx.AsyncClient]


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Opens one and the same database as often as it is called, as several processes would."""
    if request.param == "sqlite":
        return lambda clock: open_migrated(tmp_path / "wishes.db", clock, inline=False)
    from holdfast.stores.postgres import PostgresStore

    url = request.getfixturevalue("postgres_server").emptied("http")
    return lambda clock: PostgresStore(url, clock=clock)


@pytest.fixture
async def kernel(open_store: OpenStore, clock: HandClock) -> AsyncIterator[Kernel]:
    made = Kernel(store=open_store(clock), registry=Registry([app]), transport=MemoryTransport())
    await made.migrate()
    yield made
    await made.store.close()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=str(tmp_path), jwt_secret=SECRET)


@pytest.fixture
def web(settings: Settings, kernel: Kernel) -> FastAPI:
    return web_for(settings, kernel)


@pytest.fixture
async def client(web: FastAPI, settings: Settings) -> AsyncIterator[Client]:
    """client("ann", "learner") signs in; client() does not. Every answer must be as the OpenAPI document says."""
    opened: list[httpx.AsyncClient] = []
    described: dict[FastAPI, Described] = {}

    def make(sub: str | None = None, *roles: str, to: FastAPI = web) -> httpx.AsyncClient:
        headers = {} if sub is None else {"Authorization": f"Bearer {token_for(settings, sub, roles)}"}
        transport = httpx.ASGITransport(described.setdefault(to, Described(to)))
        opened.append(httpx.AsyncClient(transport=transport, base_url="http://holdfast", headers=headers))
        return opened[-1]

    yield make
    for one in opened:
        await one.aclose()
    assert [problem for each in described.values() for problem in each.problems] == []

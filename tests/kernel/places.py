"""Where the conformance suite runs: the same tests on SQLite and on PostgreSQL, each on an empty migrated database.

A `place` can be opened several times, as several processes would. A `world` is a deployment on it, with a clock that
the test turns and workers that may crash; a crash cuts the connections, and no `finally` runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.core.job import Claimed
from holdfast.kernel.app import App
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.upkeep.schedule import announce_schedules
from holdfast.stores.clock import Clock, SeededDice
from holdfast.stores.connecting import Connecting
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.tables.schema import KERNEL
from holdfast.testing import HandClock, World
from holdfast.transports.memory import MemoryTransport
from tests.services.postgres import PostgresServer
from tests.services.sqlite import copy_migrated, open_migrated

AnyStore = SqliteStore | PostgresStore
DIALECTS = ("sqlite", "postgres")


@dataclass
class Place:
    """One database, empty and migrated."""

    dialect: str
    url: str
    opened: list[AnyStore] = field(default_factory=list)

    def open(self, clock: Clock | None = None) -> AnyStore:
        """A store of its own, as another process would have it."""
        if self.dialect == "postgres":
            self.opened.append(PostgresStore(self.url, clock=clock, connecting=Connecting(connections=6)))
        else:
            self.opened.append(open_migrated(Path(self.url), clock))
        return self.opened[-1]

    def kernel(self, *apps: App, clock: Clock, seed: int = 1, **given: Any) -> Kernel:
        given.setdefault("transport", MemoryTransport())
        return Kernel(store=self.open(clock), registry=Registry(apps), dice=SeededDice(seed), **given)


@pytest.fixture(scope="session")
def postgres_database(postgres_server: PostgresServer) -> Iterator[str]:
    """One migrated database for the whole run: emptying it is quicker than making one for each test."""
    url = postgres_server.create_database()
    asyncio.run(_migrated(PostgresStore(url)))
    with psycopg.connect(url, autocommit=True) as connection:
        name = url.rpartition("/")[2]  # a test that restarts the server says `?synchronous_commit=on`
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off".encode())
    yield url
    postgres_server.drop_database(url)


async def _migrated(store: AnyStore) -> None:
    await store.migrate(KERNEL)
    await store.close()


@pytest.fixture(params=DIALECTS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "postgres":
        url: str = request.getfixturevalue("postgres_database")
        server: PostgresServer = request.getfixturevalue("postgres_server")
        server.empty(url)
        return Place("postgres", url)
    path = tmp_path / "kernel.db"
    copy_migrated(path)
    return Place("sqlite", str(path))


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(place: Place, clock: HandClock) -> AsyncIterator[AnyStore]:
    yield place.open(clock)
    await close_all(place)


Deploy = Callable[..., Any]


@pytest.fixture
async def deploy(place: Place, clock: HandClock) -> AsyncIterator[Deploy]:
    """`await deploy(app)` is a world on this place; `seed` is its luck."""
    worlds: list[World] = []

    async def made(*apps: App, seed: int = 1) -> World:
        world = World(apps, place.open, clock, seed)
        worlds.append(world)
        queues = [queue for app in apps for queue in app.queues]
        assert world.kernel.transport is not None
        await world.kernel.transport.declare(queues)
        await announce_schedules(world.kernel)
        return world

    yield made
    for world in worlds:
        await world.close()
    await close_all(place)


async def close_all(place: Place) -> None:
    for store in place.opened:
        await store.close()


async def take(kernel: Kernel, owner: str = "w1", limit: int = 10) -> list[Claimed]:
    """Lease what is due, as a worker would."""
    from holdfast.kernel.turn import turn

    taken, _ = await turn(kernel, owner, kernel.registry.queues, [], limit)
    return [one.job for one in taken]


async def rows(store: Any, text: str, **params: Any) -> list[dict[str, Any]]:
    """A question of the test's own; parameters as `:name`."""
    from holdfast.stores.statement import _statement

    async with store.reading() as tx:
        return [dict(row) for row in await tx.rows(_statement("asked", {None: text}), **params)]

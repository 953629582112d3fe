"""Fixtures: a review system on either database, with a post office outside it that counts what it delivered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.stores.clock import Clock
from holdfast.stores.connecting import Connecting
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.seam import Store
from holdfast.testing import HandClock, World
from holdfast_systems.review.jobs import MIGRATIONS, review_app
from tests.services.sqlite import open_migrated
from tests.systems.review.post_office import Desk, PostOffice, engine

OpenStore = Callable[[Clock | None], Store]
Deploy = Callable[..., Awaitable[World]]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Opens one and the same database as often as it is called, as several processes would."""
    if request.param == "sqlite":
        return lambda clock: open_migrated(tmp_path / "review.db", clock, MIGRATIONS)
    url = request.getfixturevalue("postgres_server").emptied("review")
    return lambda clock: PostgresStore(url, clock=clock, connecting=Connecting(connections=6))


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
async def deploy(open_store: OpenStore, desk: Desk, tmp_path: Path) -> AsyncIterator[Deploy]:
    """`await deploy(post)` is a deployment that mails through `post`; a second one shares the database."""
    worlds: list[World] = []
    clock = HandClock()

    async def made(post: PostOffice, **more: Any) -> World:
        app = review_app(engine(post, desk, str(tmp_path), **more))
        world = World([app], open_store, clock, seed=1)
        worlds.append(world)
        await world.kernel.migrate()
        return world

    yield made
    for world in worlds:
        await world.kernel.store.close()
        await world.close()

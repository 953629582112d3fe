"""Fixtures: the conversion system open on either database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.services.sqlite import open_migrated
from tests.systems.conversion.place import AnyStore, Place, environment, opened

from holdfast.stores.clock import Clock
from holdfast.stores.connecting import Connecting
from holdfast.stores.postgres import PostgresStore
from holdfast_systems.conversion.jobs import MIGRATIONS


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Clock], AnyStore]:
    """Opens one and the same database as often as it is called, as several processes would."""
    if request.param == "sqlite":
        return lambda clock: open_migrated(tmp_path / "conversion.db", clock, MIGRATIONS)
    url = request.getfixturevalue("postgres_server").emptied("conversion")
    return lambda clock: PostgresStore(url, clock=clock, connecting=Connecting(connections=4))


@pytest.fixture
async def place(open_store: Callable[[Clock], AnyStore], tmp_path: Path) -> AsyncIterator[Place]:
    """The system with its defaults and a gateway that does as told."""
    async with opened(open_store, environment(tmp_path)) as made:
        yield made

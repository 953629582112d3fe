"""Deployments of real processes: each its own database, its own provider and its own logs."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import Iterator

import pytest

from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.tables.schema import KERNEL
from tests.acceptance.deployment import Deployment, Ground
from tests.acceptance.grading_fixtures import grading_nursery, grading_site, grading_templates, model, standing
from tests.acceptance.process import Nursery
from tests.services.postgres import PostgresServer

__all__ = ["grading_nursery", "grading_site", "grading_templates", "model", "standing"]


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    made = Nursery(tmp_path_factory.mktemp("processes"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def ground(
    postgres_server: PostgresServer, nursery: Nursery, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    """Where deployments are made: a migrated database to copy, and a folder."""
    template = postgres_server.create_database()
    asyncio.run(_migrated(PostgresStore(template)))
    folder = tmp_path_factory.mktemp("deployments")
    embedded = folder / "template.db"
    asyncio.run(_migrated(SqliteStore(embedded)))
    made = Ground(postgres_server, nursery, template, embedded, folder, itertools.count(1))
    yield made
    postgres_server.drop_database(template)
    shutil.rmtree(folder, ignore_errors=True)


async def _migrated(store: PostgresStore | SqliteStore) -> None:
    await store.migrate(KERNEL)
    await store.close()


@pytest.fixture
def site(ground: Ground) -> Iterator[Deployment]:
    """An empty deployment on PostgreSQL."""
    made = ground.deploy()
    yield made
    made.clear()


@pytest.fixture
def embedded_site(ground: Ground) -> Iterator[Deployment]:
    """An empty deployment on one SQLite file."""
    made = ground.embed()
    yield made
    made.clear()


@pytest.fixture(params=["sqlite", "postgres"])
def either_site(request: pytest.FixtureRequest, ground: Ground) -> Iterator[Deployment]:
    """An empty deployment, on one SQLite file and on PostgreSQL."""
    made = ground.embed() if request.param == "sqlite" else ground.deploy()
    yield made
    made.clear()

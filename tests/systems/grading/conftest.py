"""A pair of grading services for a test, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.services.postgres import PostgresServer
from tests.systems.grading.pair import AbandonedPostgres, Pair, endpoint, made_engine, opened


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
async def pair(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Pair]:
    """Both services on one kind of database, with a grader that grades everything alike and asks for review."""
    if request.param == "sqlite":
        async with opened(tmp_path, made_engine(tmp_path)) as made:
            yield made
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    urls = [server.emptied("grading main"), server.emptied("grading service")]
    stores = (
        lambda clock: AbandonedPostgres(urls[0], clock=clock),
        lambda clock: AbandonedPostgres(urls[1], clock=clock),
    )
    async with opened(tmp_path, made_engine(tmp_path), stores) as made:
        yield made


@pytest.fixture
async def sure(tmp_path: Path) -> AsyncIterator[Pair]:
    """Both services on SQLite, with a model behind an endpoint whose grades need no review."""
    async with opened(tmp_path, replace(made_engine(tmp_path), client=endpoint())) as made:
        yield made

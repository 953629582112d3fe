"""Enqueueing inside the caller's own transaction, through every library that may hold it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from holdfast import App, Context, IdempotencyConflict, InvalidInput, Job, enqueue, stage
from holdfast.engines.worker import Worker
from holdfast.errors import SchemaMismatch
from holdfast.stores.clock import SystemClock
from tests.kernel.places import Place, close_all, rows

app = App("foreign")


@app.job()
class Greet(Job[str]):
    @stage()
    async def greet(self, ctx: Context, name: str) -> str:
        return f"hello {name} 100%"


class Undo(Exception):
    """Makes the caller's transaction roll back."""


@contextmanager
def by_sqlite3(url: str) -> Iterator[Any]:
    connection = sqlite3.connect(url)
    with connection:
        yield connection
    connection.close()


@contextmanager
def by_sqlite3_rows(url: str) -> Iterator[Any]:
    connection = sqlite3.connect(url, isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@contextmanager
def by_psycopg(url: str) -> Iterator[Any]:
    with psycopg.connect(url) as connection:
        yield connection


@contextmanager
def by_sqlalchemy(url: str) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(sync_url(url))
    with engine.begin() as connection:
        yield connection
    engine.dispose()


@contextmanager
def by_sqlalchemy_session(url: str) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(sync_url(url))
    with Session(engine) as session, session.begin():
        yield session
    engine.dispose()


@contextmanager
def by_scoped_session(url: str) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(sync_url(url))
    scoped = scoped_session(sessionmaker(engine))
    with scoped.begin():
        yield scoped
    scoped.remove()
    engine.dispose()


@asynccontextmanager
async def by_async_scoped_session(url: str) -> AsyncIterator[Any]:
    engine = create_async_engine(async_url(url))
    scoped = async_scoped_session(async_sessionmaker(engine), scopefunc=asyncio.current_task)
    try:
        async with scoped.begin():
            yield scoped
        await scoped.remove()
    finally:
        await engine.dispose()


@asynccontextmanager
async def by_aiosqlite(url: str) -> AsyncIterator[Any]:
    async with aiosqlite.connect(url) as connection:
        yield connection
        await connection.commit()


@asynccontextmanager
async def by_psycopg_async(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection


@asynccontextmanager
async def by_asyncpg(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def by_asyncpg_pool(url: str) -> AsyncIterator[Any]:
    async with (
        asyncpg.create_pool(url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield connection


@asynccontextmanager
async def by_sqlalchemy_async(url: str) -> AsyncIterator[Any]:
    engine = create_async_engine(async_url(url))
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()


@asynccontextmanager
async def by_sqlalchemy_async_psycopg(url: str) -> AsyncIterator[Any]:
    engine = create_async_engine(async_url(url).replace("asyncpg", "psycopg"))
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()


@asynccontextmanager
async def by_sqlalchemy_async_session(url: str) -> AsyncIterator[Any]:
    engine = create_async_engine(async_url(url))
    try:
        async with AsyncSession(engine) as session, session.begin():
            yield session
    finally:
        await engine.dispose()


def sync_url(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://") if "://" in url else f"sqlite:///{url}"


def async_url(url: str) -> str:
    return url.replace("postgresql://", "postgresql+asyncpg://") if "://" in url else f"sqlite+aiosqlite:///{url}"


BOTH = [
    by_sqlalchemy,
    by_sqlalchemy_session,
    by_scoped_session,
    by_sqlalchemy_async,
    by_sqlalchemy_async_session,
    by_async_scoped_session,
]
WAYS = {
    "sqlite": [by_sqlite3, by_sqlite3_rows, by_aiosqlite, *BOTH],
    "postgres": [by_psycopg, by_psycopg_async, by_asyncpg, by_asyncpg_pool, by_sqlalchemy_async_psycopg, *BOTH],
}
EVERY_WAY = [
    pytest.param(dialect, way, id=f"{dialect}-{way.__name__}") for dialect, ways in WAYS.items() for way in ways
]


async def put(way: Any, url: str, name: str, key: str | None = None, *, fail: bool = False) -> str:
    opened = way(url)
    if hasattr(opened, "__aenter__"):
        async with opened as connection:
            job_id = await enqueue(connection, Greet, name, key=key)
            if fail:
                raise Undo
            return job_id
    with opened as connection:
        job_id = enqueue(connection, Greet, name, key=key)
        if fail:
            raise Undo
        return job_id


@pytest.mark.spec("K1")
@pytest.mark.parametrize("place, way", EVERY_WAY, indirect=["place"])
async def test_a_job_exists_if_and_only_if_its_caller_commits(place: Place, way: Any) -> None:
    kernel = place.kernel(app, clock=SystemClock())
    with pytest.raises(Undo):
        await put(way, place.url, "nobody", fail=True)
    assert await rows(kernel.store, "SELECT id FROM holdfast_jobs") == []
    job_id = await put(way, place.url, "ann", key="greet:ann")
    assert await put(way, place.url, "ann", key="greet:ann") == job_id
    with pytest.raises(IdempotencyConflict, match="greet:ann"):
        await put(way, place.url, "bob", key="greet:ann")
    await Worker(kernel).run_until_idle()
    done = await rows(kernel.store, "SELECT CAST(job_id AS TEXT) AS id, value FROM holdfast_results")
    assert done == [{"id": job_id, "value": '"hello ann 100%"'}]
    await close_all(place)


@pytest.mark.spec("K19")
@pytest.mark.parametrize("dialect, way", EVERY_WAY)
async def test_a_database_without_tables_is_named_with_the_way_out(
    dialect: str, way: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = str(tmp_path / "empty.db") if dialect == "sqlite" else request.getfixturevalue("postgres_url")
    with pytest.raises(SchemaMismatch, match=r"has no Holdfast tables; run holdfast migrate\."):
        await put(way, url, "ann")


@pytest.mark.spec("K1")
def test_enqueue_refuses_what_is_no_connection() -> None:
    with pytest.raises(InvalidInput, match="through a int;"):
        enqueue(7, Greet, "ann")


@pytest.mark.spec("K1")
async def test_the_id_of_an_enqueue_on_an_async_connection_is_had_by_awaiting_it(place: Place) -> None:
    way = by_asyncpg if place.dialect == "postgres" else by_aiosqlite
    async with way(place.url) as connection:
        asked = enqueue(connection, Greet, "ann")
        with pytest.raises(InvalidInput, match="await it"):
            str(asked)
        assert type(await asked) is str
        with pytest.raises(InvalidInput, match="awaited before"):
            await asked

"""What commits by itself is refused, unless the caller says so."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from holdfast import InvalidInput, enqueue, enqueue_many
from holdfast.stores.clock import SystemClock
from tests.door.shipping import Order, Ship, app, async_engine, sync_url
from tests.kernel.places import Place, close_all, rows

pytestmark = pytest.mark.spec("K1")


@asynccontextmanager
async def sync_autocommit(place: Place) -> AsyncIterator[Any]:
    connection: Any = (
        sqlite3.connect(place.url, isolation_level=None)
        if place.dialect == "sqlite"
        else psycopg.connect(place.url, autocommit=True)
    )
    with closing(connection):
        yield connection


@asynccontextmanager
async def async_autocommit(place: Place) -> AsyncIterator[Any]:
    if place.dialect == "sqlite":
        async with aiosqlite.connect(place.url, isolation_level=None) as connection:
            yield connection
    else:
        async with await psycopg.AsyncConnection.connect(place.url, autocommit=True) as connection:
            yield connection


@asynccontextmanager
async def asyncpg_without_transaction(place: Place) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(place.url)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pool(place: Place) -> AsyncIterator[Any]:
    async with asyncpg.create_pool(place.url, min_size=1, max_size=1) as pool:
        yield pool


@asynccontextmanager
async def sqlalchemy_autocommit(place: Place) -> AsyncIterator[Any]:
    engine = sqlalchemy.create_engine(sync_url(place))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield connection
    engine.dispose()


@asynccontextmanager
async def sqlalchemy_autocommit_session(place: Place) -> AsyncIterator[Any]:
    engine = sqlalchemy.create_engine(sync_url(place), isolation_level="AUTOCOMMIT")
    with Session(engine) as session:
        yield session
    engine.dispose()


@asynccontextmanager
async def sqlalchemy_async_autocommit(place: Place) -> AsyncIterator[Any]:
    engine = async_engine(place)
    try:
        async with engine.connect() as connection:
            yield await connection.execution_options(isolation_level="AUTOCOMMIT")
    finally:
        await engine.dispose()


@asynccontextmanager
async def sqlalchemy_async_autocommit_session(place: Place) -> AsyncIterator[Any]:
    engine = async_engine(place, isolation_level="AUTOCOMMIT")
    try:
        async with AsyncSession(engine) as session:
            yield session
    finally:
        await engine.dispose()


ON_BOTH = [
    sync_autocommit,
    async_autocommit,
    sqlalchemy_autocommit,
    sqlalchemy_autocommit_session,
    sqlalchemy_async_autocommit,
    sqlalchemy_async_autocommit_session,
]
UNSAFE = [("sqlite", way) for way in ON_BOTH]
UNSAFE += [("postgres", way) for way in (*ON_BOTH, asyncpg_without_transaction, asyncpg_pool)]


@pytest.mark.parametrize("place, way", UNSAFE, indirect=["place"], ids=[f"{d}-{way.__name__}" for d, way in UNSAFE])
async def test_what_commits_by_itself_is_refused_unless_the_caller_says_so(place: Place, way: Any) -> None:
    kernel = place.kernel(app, clock=SystemClock())
    async with way(place) as connection:
        for ask in (lambda: enqueue(connection, Ship, Order(1)), lambda: enqueue_many(connection, Ship, [Order(1)])):
            with pytest.raises(
                InvalidInput, match=r"has no open transaction, .* begin one .*first, or say autocommit=True"
            ):
                ask()
        assert await rows(kernel.store, "SELECT id FROM holdfast_jobs") == []
        enqueued = enqueue(connection, Ship, Order(1), autocommit=True)
        if not isinstance(enqueued, str):  # a sync connection has it written already
            await enqueued
        assert len(await rows(kernel.store, "SELECT id FROM holdfast_jobs")) == 1
    await close_all(place)


async def test_autocommit_within_a_transaction_that_was_begun_is_no_autocommit(place: Place) -> None:
    async with sync_autocommit(place) as connection:
        connection.execute("BEGIN")
        enqueue(connection, Ship, Order(1))
        connection.execute("ROLLBACK")
    store = place.open(SystemClock())
    assert await rows(store, "SELECT id FROM holdfast_jobs") == []
    await close_all(place)

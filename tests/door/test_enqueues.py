"""Whatever is wrong with an enqueue is said before anything is written, in a sentence that names it and the way out."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from pydantic import AfterValidator
from sqlalchemy.ext.asyncio import async_sessionmaker
from sqlalchemy.orm import sessionmaker

from holdfast import Context, InvalidInput, Job, SyncClient, enqueue, enqueue_many, stage
from holdfast.errors import StoreError, UsageError
from tests.door.shipping import Order, Ship, app, async_engine, now, sync_url
from tests.kernel.places import Place

pytestmark = pytest.mark.spec("K1")


def weighed(grams: int) -> int:
    assert grams >= 0, "must not be negative"
    return grams


@dataclass
class Parcel:
    grams: Annotated[int, AfterValidator(weighed)]


@app.job()
class Weigh(Job[Parcel]):
    @stage()
    async def pack(self, ctx: Context, parcel: Parcel) -> None: ...


class Undeclared(Job[Order]):
    @stage()
    async def pack(self, ctx: Context, order: Order) -> None: ...


class Inheriting(Ship): ...


MISTAKES: list[tuple[Callable[[Any], Any], str]] = [
    (now(prio=1), "There is no option 'prio' of a job; did you mean 'priority'? They are key, delay_s, priority, "),
    (
        now(wobble=1),
        "There is no option 'wobble' of a job; they are key, delay_s, priority, deadline_s, owner, trace.",
    ),
    (now(eta=5), "There is no option 'eta' of a job; say in how many seconds: delay_s=60."),
    (now(unique=True), "There is no option 'unique' of a job; the same key is the same job: key='order:7'."),
    (lambda c: enqueue_many(c, Ship, [], prio=1), "There is no option 'prio' of a job; did you mean 'priority'?"),
    (lambda c: enqueue(app, Ship, Order(1)), "Holdfast cannot write through a holdfast.App; start a job with"),
    (
        lambda c: enqueue(SyncClient.open(app, database="sqlite:///x.db"), Ship, Order(1)),
        "cannot write through a holdfast.SyncClient; it enqueues by itself, in a commit of its own: client.enqueue(",
    ),
    (now(priority=99), "The priority 99 must be one of 0, 1, 2, 3."),
    (now(priority="high"), "The priority high must be one of 0, 1, 2, 3."),
    (now(delay_s=-1), "The delay_s of -1 must be a number of seconds of 0 or more."),
    (now(delay_s=float("nan")), "The delay_s of nan must be a number of seconds of 0 or more."),
    (now(delay_s=timedelta(1)), "The delay_s of datetime.timedelta(days=1) must be a number of seconds"),
    (now(delay_s=1e300), "The delay_s of 1e+300 must be at most a hundred years."),
    (now(delay_s=True), "The delay_s of True must be a number of seconds"),
    (now(delay_s=None), "The delay_s of None must be a number of seconds"),
    (now(deadline_s=10**30), " must be at most a hundred years."),
    (now(priority=True), "The priority True must be one of 0, 1, 2, 3."),
    (now(deadline_s=0), "The deadline_s of 0 must be a number of seconds above 0."),
    (now(deadline_s="soon"), "The deadline_s of 'soon' must be a number of seconds above 0."),
    (now(key=17), "The key of 'door.ship' is a int; it must be a text of 1 to 255 characters."),
    (now(key=""), "The key of 'door.ship' is a text of 0 characters; it must be a text of 1 to 255"),
    (now(key="k" * 256), "The key of 'door.ship' is a text of 256 characters; it must be"),
    (now(owner=17), "The owner of 'door.ship' is a int; it must be a text of 1 to 255 characters."),
    (now(owner=""), "The owner of 'door.ship' is a text of 0 characters; it must be"),
    (now(owner="a\0b"), "The owner of 'door.ship' is a text of 3 characters; it must not hold a NUL"),
    (now(key="a\ud800"), "The key of 'door.ship' is a text of 2 characters; it must not hold a NUL"),
    (lambda c: enqueue(c, Undeclared, Order(1)), "The job class 'Undeclared' is not declared; write @app.job() above"),
    (lambda c: enqueue(c, Inheriting, Order(1)), "The job class 'Inheriting' is not declared; write @app.job() above"),
    (lambda c: enqueue(c, Ship(), Order(1)), "not by an instance: write Ship instead of Ship()."),
    (lambda c: enqueue(c, "door.ship", Order(1)), "'door.ship' is no job class; declare one with @app.job()"),
    (lambda c: enqueue(c, Order, Order(1)), "is no job class; declare one with @app.job() above class"),
    (
        lambda c: enqueue(c, Weigh, {"grams": -1}),
        "The input of 'door.weigh' does not fit: grams: must not be negative.",
    ),
    (lambda c: enqueue(c, Ship, Order), "The input of 'door.ship' does not fit: "),
    (lambda c: enqueue(c, Ship, None), "The input of 'door.ship' does not fit: the value: "),
    (lambda c: enqueue(c, Ship, {}), "The input of 'door.ship' does not fit: id: Field required."),
    (lambda c: enqueue(c, Ship, "text"), "The input of 'door.ship' does not fit: the value: "),
    (
        lambda c: enqueue(c, Ship, Order("many")),
        "The input of 'door.ship' does not fit: id: Input should be a valid int",
    ),
    (
        lambda c: enqueue_many(c, Ship, [Order(1)], prio=1),
        "There is no option 'prio' of a job; did you mean 'priority'?",
    ),
    (lambda c: enqueue_many(c, Undeclared, [Order(1)]), "The job class 'Undeclared' is not declared;"),
    (
        lambda c: enqueue_many(c, Ship, Order(1)),
        "Many jobs of 'door.ship' are asked for with a Order: its inputs must be",
    ),
    (
        lambda c: enqueue_many(c, Ship, {"id": 1}),
        "Many jobs of 'door.ship' are asked for with a dict: its inputs must be",
    ),
    (lambda c: enqueue_many(c, Undeclared, []), "The job class 'Undeclared' is not declared;"),
    (lambda c: enqueue_many(c, Ship, [Order(1), {"id": "x"}]), "The input of 'door.ship' does not fit: id: "),
]


@pytest.mark.parametrize(("ask", "sentence"), MISTAKES, ids=[sentence[:40] for _, sentence in MISTAKES])
def test_a_mistake_in_an_enqueue_is_named(place: Place, ask: Callable[[Any], Any], sentence: str) -> None:
    connection = sqlite3.connect(place.url) if place.dialect == "sqlite" else psycopg.connect(place.url)
    with closing(connection), pytest.raises(UsageError) as refused:
        ask(connection)
    assert sentence in str(refused.value)


def test_a_connection_may_give_its_texts_as_bytes_and_make_cursors_of_its_own(place: Place) -> None:
    connection: Any
    if place.dialect == "sqlite":
        connection = sqlite3.connect(place.url)
        connection.text_factory = bytes
    else:
        connection = psycopg.connect(place.url, cursor_factory=psycopg.RawCursor)
    with closing(connection):
        first = enqueue(connection, Ship, Order(1), key="once")
        assert enqueue(connection, Ship, Order(1), key="once") == first
        if place.dialect == "postgres":
            with (
                connection.pipeline(),
                pytest.raises(InvalidInput, match="in pipeline mode, where no answer is known yet"),
            ):
                enqueue(connection, Ship, Order(1), key="once")


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
def test_a_transaction_that_has_failed_is_named(place: Place) -> None:
    with psycopg.connect(place.url) as connection:
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT 1/0")
        with pytest.raises(StoreError, match="failed in this connection's transaction; roll it back and begin again"):
            enqueue(connection, Ship, Order(1))
        connection.rollback()


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda place: sqlalchemy.create_engine(sync_url(place)), "sqlalchemy.Engine"),
        (async_engine, "sqlalchemy.AsyncEngine"),
        (lambda place: sessionmaker(sqlalchemy.create_engine(sync_url(place))), "sqlalchemy.sessionmaker"),
        (lambda place: async_sessionmaker(async_engine(place)), "sqlalchemy.async_sessionmaker"),
    ],
)
def test_what_only_makes_connections_is_refused_even_for_autocommit(place: Place, make: Any, name: str) -> None:
    for options in ({}, {"autocommit": True}):
        with pytest.raises(
            InvalidInput, match=f"A connection or session is needed here, not a {name}: give it the connection of"
        ):
            enqueue(make(place), Ship, Order(1), **options)  # type: ignore[call-overload]


async def test_a_pool_is_refused_with_the_way_to_a_connection(postgres_url: str) -> None:
    async with asyncpg.create_pool(postgres_url, min_size=0, max_size=1) as pool:
        with pytest.raises(InvalidInput, match=r"take a connection of it with acquire\(\) and begin one on that first"):
            await enqueue(pool, Ship, Order(1))


async def test_a_cursor_is_refused_with_its_connection_named(place: Place) -> None:
    connection = sqlite3.connect(place.url) if place.dialect == "sqlite" else psycopg.connect(place.url)
    with closing(connection), pytest.raises(InvalidInput, match=r"not a \w+\.Cursor: give it the connection"):
        enqueue(connection.cursor(), Ship, Order(1))

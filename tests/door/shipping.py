"""A small app whose jobs are enqueued in every way, and the engines of SQLAlchemy on a place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import create_async_engine

from holdfast import App, Context, Job, enqueue, stage
from tests.kernel.places import Place

app = App("door")


@dataclass
class Order:
    id: int


@app.job()
class Ship(Job[Order]):
    @stage()
    async def pack(self, ctx: Context, order: Order) -> None: ...


def now(**options: Any) -> Callable[[Any], Any]:
    return lambda connection: enqueue(connection, Ship, Order(1), **options)


def sync_url(place: Place) -> str:
    if place.dialect == "sqlite":
        return f"sqlite:///{place.url}"
    return place.url.replace("postgresql://", "postgresql+psycopg://")


def async_engine(place: Place, **options: Any) -> Any:
    url = f"sqlite+aiosqlite:///{place.url}"
    if place.dialect == "postgres":
        url = place.url.replace("postgresql://", "postgresql+asyncpg://")
    return create_async_engine(url, **options)

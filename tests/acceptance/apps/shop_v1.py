"""The shop, as it was released first. `shop_v2` changes each of its jobs in another way."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast import App, Context, Job, stage
from tests.acceptance.apps.shop_work import Item, work

app = App("shop")


def make() -> App:
    return app


@app.job()
class Added(Job[Item]):
    @stage()
    async def pick(self, ctx: Context, item: Item) -> str:
        return await work(ctx, "v1", item.name)

    @stage()
    async def pack(self, ctx: Context, item: Item, pick: str) -> str:
        return await work(ctx, "v1", item.name)


@app.job()
class Renamed(Job[Item]):
    @stage()
    async def bill(self, ctx: Context, item: Item) -> str:
        return await work(ctx, "v1", item.name)

    @stage()
    async def send(self, ctx: Context, item: Item, bill: str) -> str:
        return await work(ctx, "v1", item.name)


@app.job()
class Removed(Job[Item]):
    @stage()
    async def order(self, ctx: Context, item: Item) -> str:
        return await work(ctx, "v1", item.name)

    @stage()
    async def ask(self, ctx: Context, item: Item, order: str) -> str:
        return await work(ctx, "v1", item.name, only_here=True)

    @stage()
    async def ship(self, ctx: Context, item: Item, order: str) -> str:
        return await work(ctx, "v1", item.name)


@app.job()
class Reordered(Job[Item]):
    @stage()
    async def start(self, ctx: Context, item: Item) -> str:
        return await work(ctx, "v1", item.name)

    @stage()
    async def paint(self, ctx: Context, item: Item, start: str) -> str:
        return await work(ctx, "v1", item.name)

    @stage()
    async def label(self, ctx: Context, item: Item, start: str) -> str:
        return await work(ctx, "v1", item.name)


@app.job()
class Split(Job[Item]):
    @stage()
    async def make(self, ctx: Context, item: Item) -> str:
        return await work(ctx, "v1", item.name)

    @stage()
    async def sell(self, ctx: Context, item: Item, make: str) -> str:
        return await work(ctx, "v1", item.name)


@app.job(queue="old")
class Moved(Job[Item]):
    @stage()
    async def carry(self, ctx: Context, item: Item) -> str:
        return await work(ctx, "v1", item.name)


@app.job()
class Lined(Job[Item]):
    @stage()
    async def serve(self, ctx: Context, item: Item) -> str:
        return await work(ctx, "v1", item.name)


@dataclass
class Price:
    name: str
    euros: int


@app.job()
class Versioned(Job[Price]):
    @stage()
    async def pay(self, ctx: Context, price: Price) -> int:
        await work(ctx, "v1", price.name)
        return price.euros


KINDS = (Added, Renamed, Removed, Reordered, Split, Moved, Lined)


def inputs(name: str) -> list[tuple[type[Job[Item]] | type[Job[Price]], object]]:
    """One job of every kind of this release."""
    return [*((kind, Item(name)) for kind in KINDS), (Versioned, Price(name, 3))]

"""The shop's second release: stages are added, renamed, removed, moved and split, an input changed, a kind
is new, another has a queue of its own, and one takes turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast import App, Context, Job, stage
from tests.acceptance.apps.shop_work import Item, work

app = App("shop")


def make() -> App:
    return app


@app.job()
class Added(Job[Item]):
    @stage()
    async def pick(self, ctx: Context, item: Item) -> str:
        return await work(ctx, "v2", item.name)

    @stage()
    async def weigh(self, ctx: Context, item: Item, pick: str) -> str:
        return await work(ctx, "v2", item.name, only_here=True)

    @stage()
    async def pack(self, ctx: Context, item: Item, weigh: str) -> str:
        return await work(ctx, "v2", item.name)


@app.job()
class Renamed(Job[Item]):
    @stage(formerly=("bill",))
    async def invoice(self, ctx: Context, item: Item) -> str:
        return await work(ctx, "v2", item.name, only_here=True)

    @stage()
    async def send(self, ctx: Context, item: Item, invoice: str) -> str:
        return await work(ctx, "v2", item.name)


@app.job()
class Removed(Job[Item]):
    @stage()
    async def order(self, ctx: Context, item: Item) -> str:
        return await work(ctx, "v2", item.name)

    @stage()
    async def ship(self, ctx: Context, item: Item, order: str) -> str:
        return await work(ctx, "v2", item.name)


@app.job()
class Reordered(Job[Item]):
    @stage()
    async def start(self, ctx: Context, item: Item) -> str:
        return await work(ctx, "v2", item.name)

    @stage()
    async def label(self, ctx: Context, item: Item, start: str) -> str:
        return await work(ctx, "v2", item.name)

    @stage()
    async def paint(self, ctx: Context, item: Item, start: str) -> str:
        return await work(ctx, "v2", item.name)


@app.job()
class Split(Job[Item]):
    @stage(formerly=("make",))
    async def cut(self, ctx: Context, item: Item) -> str:
        return await work(ctx, "v2", item.name, only_here=True)

    @stage(formerly=("make",))
    async def sew(self, ctx: Context, item: Item, cut: str) -> str:
        return await work(ctx, "v2", item.name)

    @stage()
    async def sell(self, ctx: Context, item: Item, sew: str) -> str:
        return await work(ctx, "v2", item.name)


@app.job(queue="new")
class Moved(Job[Item]):
    @stage()
    async def carry(self, ctx: Context, item: Item) -> str:
        return await work(ctx, "v2", item.name)


@app.job(fair_by="name")
class Lined(Job[Item]):
    @stage()
    async def serve(self, ctx: Context, item: Item) -> str:
        return await work(ctx, "v2", item.name)


@dataclass
class Price:
    name: str
    cents: int


def in_cents(first: dict[str, Any]) -> Price:
    return Price(first["name"], first["euros"] * 100)


@app.job(version=2, upgrade={1: in_cents})
class Versioned(Job[Price]):
    @stage()
    async def pay(self, ctx: Context, price: Price) -> int:
        await work(ctx, "v2", price.name, only_here=True)
        return price.cents


@app.job()
class New(Job[Item]):
    @stage()
    async def greet(self, ctx: Context, item: Item) -> str:
        return await work(ctx, "v2", item.name, only_here=True)


def inputs(name: str) -> list[tuple[type[Job[Item]] | type[Job[Price]], object]]:
    """One job of every kind of this release."""
    kinds = (Added, Renamed, Removed, Reordered, Split, Moved, Lined, New)
    return [*((kind, Item(name)) for kind in kinds), (Versioned, Price(name, 300))]

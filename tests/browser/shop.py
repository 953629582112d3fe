"""A small system of the tests: a shop that charges a bank and posts a parcel, and fails as it is told."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

from holdfast import App, Category, Context, Cost, Job, Provider, Retry, stage
from holdfast.core.breaker import BreakerPolicy
from holdfast.errors import CallError
from holdfast.transports.seam import Queue


@dataclass(frozen=True)
class Order:
    item: str
    parcel: str = ""
    pieces: int = 1
    is_gift: bool = False


@dataclass
class Mood:
    """How the world treats the shop. `broken` items make the bank refuse; `vague` parcels get no clear answer."""

    broken: dict[str, str] = field(default_factory=dict)
    error_class: str = "CARD_REFUSED"
    vague: set[str] = field(default_factory=set)
    slow: asyncio.Event | None = None

    def calm_down(self) -> None:
        if self.slow is not None:
            self.slow.set()
        self.broken.clear()
        self.vague.clear()
        self.error_class, self.slow = "CARD_REFUSED", None


def shop_app(mood: Mood) -> tuple[App, type[Job[Any]]]:
    """The app, and its job."""
    app = App("shop", queues=[Queue("parcels", "shop.exchange", "parcels", sink=True)])
    bank = Provider("bank", breaker=BreakerPolicy())
    post = Provider("post", effects="neither")

    @app.job(name="shop.order")
    class Sell(Job[Order]):
        @stage(provider=bank, retry=Retry(attempts=2, base_s=0.01, jitter="none"))
        async def charge(self, ctx: Context, order: Order) -> str:
            logging.getLogger("shop").warning("charging for %s", order.item)
            return await ctx.call(lambda: _charge(mood, order), cost=lambda _: Cost(micros=1_500))

        @stage(provider=post, retry=Retry(attempts=1))
        async def send(self, ctx: Context, order: Order, charge: str) -> str:
            ctx.emit("shop.exchange/parcels", {"item": order.item}, type="parcel")
            if not order.parcel:
                return "collected"
            return await ctx.effect(("parcel", order.parcel), send=lambda token: _post(mood, order))

    @app.job(name="shop.bundle")
    class Bundle(Job[Order]):
        @stage()
        async def ask(self, ctx: Context, order: Order) -> str:
            answer = await ctx.wait_for(f"may-we-{order.item}", timeout_s=3_600)
            return "nobody said" if answer is None else str(answer.value)

        @stage()
        async def sell(self, ctx: Context, order: Order) -> int:
            return len(await ctx.gather(Sell, [order, order]))

    return app, Sell


async def _charge(mood: Mood, order: Order) -> str:
    if mood.slow is not None:
        await mood.slow.wait()
    if order.item in mood.broken:
        raise CallError.of(Category.VALIDATION, mood.error_class, mood.broken[order.item], status=422)
    return f"paid for {order.item}"


async def _post(mood: Mood, order: Order) -> str:
    if order.parcel in mood.vague:
        raise CallError.of(Category.NETWORK, "NETWORK_TIMEOUT", f"No answer about {order.parcel}.", ambiguous=True)
    return f"parcel of {order.parcel}"

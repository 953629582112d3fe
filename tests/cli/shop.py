"""A small app for the command line to work on: bills, paid or refused, and letters that nobody can vouch for."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast import App, Breaker, CallError, Category, Context, Cost, Job, Provider, Retry, stage
from holdfast.transports.seam import Queue

app = App("shop", queues=[Queue("shop.paid")])
bank = Provider("bank", breaker=Breaker())
post = Provider("post", effects="neither")
rival = App("rival", queues=[Queue("rival.done", sink=True)])
number = 7


@dataclass(frozen=True)
class Bill:
    number: int
    amount: int


@app.job()
class Pay(Job[Bill]):
    @stage(provider=bank, retry=Retry(attempts=1))
    async def pay(self, ctx: Context, bill: Bill) -> None:
        async def ask() -> None:
            if bill.amount < 0:
                raise CallError.of(Category.VALIDATION, "AMOUNT_REFUSED", "[bold]no[/bold] such amount")

        await ctx.call(ask, cost=lambda _: Cost(micros=2_500))
        ctx.emit("shop.paid", {"number": bill.number})


@app.job()
class Remind(Job[Bill]):
    @stage(provider=post, retry=Retry(attempts=3, base_s=0))
    async def remind(self, ctx: Context, bill: Bill) -> None:
        async def send(token: str) -> str:
            raise CallError.of(Category.NETWORK, "NETWORK_TIMEOUT", "no answer", ambiguous=True)

        await ctx.effect(("reminder", bill.number), send=send)


@rival.job()
class Collect(Job[Bill]):
    @stage(provider=bank)
    async def collect(self, ctx: Context, bill: Bill) -> None:
        await ctx.call(lambda: _nothing())
        ctx.emit("rival.done", {"number": bill.number})


async def _nothing() -> None:
    pass


app.schedule("0 6 * * *", Pay, Bill(1, 10), name="rent")

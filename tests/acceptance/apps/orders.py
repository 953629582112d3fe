"""An order in three stages, with every kind of effect, a message, a follow-up job and a consumer that commits first.

price (a call) -> charge (token) -> post (lookup; emits `orders.done`; submits a keyed receipt)
fax (neither)     broken (dies until the ledger says it was mended)
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from holdfast import App, Breaker, CallError, Category, Context, Job, Provider, Retry, stage
from holdfast.kernel.intake import once
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.submit import prepare, submit, submit_in
from holdfast.transports.seam import Delivery, Queue
from tests.acceptance.ledger import Ledger

LEDGER = "ACCEPTANCE_LEDGER"
DONE = Queue("orders.done")
SOON = Retry(attempts=8, base_s=0.05, cap_s=0.2)


@dataclass
class OrderIn:
    """`doubt`: the post does its work, and its first answer is lost."""

    id: int
    doubt: bool = False


@dataclass
class Note:
    about: str


def make() -> App:
    return orders(Ledger(os.environ[LEDGER]))


def orders(ledger: Ledger) -> App:
    """The app over one provider's ledger."""
    app = App("orders", queues=[DONE])
    declare_order(app, ledger, declare_receipt(app, ledger))
    declare_fax(app, ledger)
    declare_broken(app, ledger)
    declare_consumer(app)
    return app


def declare_receipt(app: App, ledger: Ledger) -> type[Job[Note]]:
    @app.job()
    class Receipt(Job[Note]):
        @stage(retry=SOON)
        async def file(self, ctx: Context, note: Note) -> None:
            ledger.note(note.about)

    return Receipt


def declare_order(app: App, ledger: Ledger, receipt: type[Job[Note]]) -> None:
    async def find_mail(token: str) -> str | None:
        return ledger.find("mail", token)

    async def post_mail(token: str, doubt: bool) -> str:
        first = ledger.find("mail", token) is None
        found = ledger.send("mail", token, dedupe=False)
        if doubt and first:
            raise TimeoutError("the answer was lost on its way")
        return found

    catalog = Provider("catalog", breaker=Breaker(window=20), timeout_s=5.0)
    bank = Provider("bank", effects="token", timeout_s=5.0)
    mail = Provider("mail", effects="lookup", timeout_s=0.5, late_bound_s=0.5, lookup=find_mail)

    @app.job()
    class Order(Job[OrderIn]):
        @stage(provider=catalog, retry=SOON)
        async def price(self, ctx: Context, order: OrderIn) -> int:
            async def quote() -> int:
                return 100 + order.id

            return await ctx.call(quote)

        @stage(provider=bank, retry=SOON)
        async def charge(self, ctx: Context, order: OrderIn, price: int) -> str:
            async def send(token: str) -> str:
                return ledger.send("bank", token, dedupe=True)

            return await ctx.effect(("charge", order.id), send=send)

        @stage(provider=mail, retry=SOON)
        async def post(self, ctx: Context, order: OrderIn, charge: str) -> None:
            await ctx.effect(("mail", order.id), send=lambda token: post_mail(token, order.doubt))
            await submit(ctx.kernel, receipt, Note(f"receipt {order.id}"), key=f"receipt:{order.id}")
            ctx.emit(DONE.name, {"order": order.id, "charge": charge}, type="order.done")


def declare_fax(app: App, ledger: Ledger) -> None:
    fax = Provider("fax", effects="neither", timeout_s=5.0)

    @app.job()
    class Fax(Job[OrderIn]):
        @stage(provider=fax, retry=SOON)
        async def send(self, ctx: Context, order: OrderIn) -> str:
            async def dial(token: str) -> str:
                return ledger.send("fax", token, dedupe=False)

            return await ctx.effect(("fax", order.id), send=dial)


def declare_broken(app: App, ledger: Ledger) -> None:
    @app.job()
    class Broken(Job[OrderIn]):
        @stage(retry=SOON)
        async def try_it(self, ctx: Context, order: OrderIn) -> None:
            if "mended" not in ledger.notes():
                raise CallError.of(Category.VALIDATION, "NOT_MENDED", "The ledger does not say that it was mended.")


def declare_consumer(app: App) -> None:
    @app.job()
    class Booking(Job[Note]):
        @stage(retry=SOON)
        async def book(self, ctx: Context, note: Note) -> str:
            return note.about

    @app.consume(DONE)
    async def done(kernel: Kernel, delivery: Delivery) -> None:
        assert delivery.message_id is not None
        about = json.loads(delivery.body)["order"]
        async with once(kernel, "orders", delivery.message_id, delivery.body) as (tx, first):
            if first:  # without a key: a second commit of this handler would be a second booking
                now = kernel.now()
                booking = prepare(Booking.__holdfast__, Note(f"booking {about}"), job_id=kernel.new_id(), now=now)
                await submit_in(tx, [booking], now)

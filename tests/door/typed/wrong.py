"""Code that a type checker must refuse, at every line that ends in `# refused` and at no other."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from holdfast import (
    App,
    Client,
    Context,
    Job,
    JobTx,
    Provider,
    Retry,
    Settled,
    SyncClient,
    SyncContext,
    enqueue,
    enqueue_many,
    stage,
)
from holdfast.testing import World

app = App("typed")
bank = Provider("bank")


@dataclass
class Order:
    id: int


@app.job()
class Ship(Job[Order]):
    @stage()
    async def pack(self, ctx: Context, order: Order) -> None:
        async def send(token: str) -> str:
            return token

        def charge() -> str:
            return "charge"

        ctx.effect("charge", send=send)  # refused
        ctx.progress(done=1)  # refused
        await ctx.call(charge)  # refused
        await ctx.call(send("token"))  # refused


@app.job  # refused
class Bare(Job[Order]):
    @stage(retry=3)  # refused
    async def pack(self, ctx: Context, order: Order) -> None: ...


stage(Ship.pack)  # refused


def sync(connection: sqlite3.Connection) -> None:
    enqueue(connection, Ship, "text")  # refused
    enqueue(connection, Ship, {"id": 1})  # refused
    enqueue(connection, Ship, Order(1), prio=1)  # refused
    enqueue(connection, Ship, Order(1), priority="high")  # refused
    enqueue(connection, Ship, Order(1), key=17)  # refused
    enqueue(connection, Ship, Order(1), delay_s="soon")  # refused
    enqueue(connection, Ship(), Order(1))  # refused
    enqueue(connection, Order, Order(1))  # refused
    enqueue(connection, Ship)  # refused
    enqueue_many(connection, Ship, ["text"])  # refused
    enqueue_many(connection, Ship, [Order(1)], key="same")  # refused
    enqueue_many(connection, Ship, [Order(1)], prio=1)  # refused


async def asynchronous(session: AsyncSession) -> None:
    enqueue(session, Ship, Order(1))  # refused
    enqueue_many(session, Ship, [Order(1)])  # refused
    await enqueue(session, Ship, Order("many"))  # refused


async def tested(world: World) -> None:
    world.enqueue(Ship, Order(1))  # refused
    await world.enqueue(Ship, "text")  # refused
    await world.enqueue(Ship, Order(1), prio=1)  # refused


app.schedule("0 3 * * *", Ship, "text")  # refused
Provider("bank", effects="tokens")  # refused
Retry(max_attempts=3)  # refused


@app.job()
class Weigh(Job[Order, float]):
    @stage()
    async def weigh(self, ctx: Context, order: Order) -> float:
        text: str = await ctx.checkpoint("id", lambda: order.id)  # refused
        ctx.checkpoint("id", lambda: order.id)  # refused
        return float(text)

    async def on_settled(self, tx: JobTx, change: str) -> None:  # refused
        await tx.enqueue(Ship, 1)  # refused


@app.job()
class Count(Job[int]):
    @stage()
    async def count(self, ctx: Context, number: int) -> None: ...

    async def on_settled(self, tx: JobTx, change: Settled) -> None:
        tx.enqueue(Ship, Order(1))  # refused
        print(change.satte)  # refused


async def outside(client: Client) -> None:
    await client.enqueue(Weigh, "text")  # refused
    await client.enqueue(Weigh, Order(1), prio=1)  # refused
    await client.enqueue_many(Weigh, [1])  # refused
    await client.wait("id")  # refused
    client.cancel("id")  # refused
    text: str = await client.result(Weigh, "id")  # refused
    print(text)


def outside_without_a_loop(client: SyncClient) -> None:
    text: str = client.result(Weigh, client.enqueue(Weigh, Order(1)))  # refused
    client.enqueue(Weigh, 17)  # refused
    print(text)


@app.job()
class Fan(Job[Order, str]):
    @stage()
    async def fan(self, ctx: Context, order: Order) -> str:
        async def send_nothing(token: str) -> None: ...

        await ctx.spawn(Ship, 1)  # refused
        await ctx.spawn(Ship)  # refused
        await ctx.spawn(Ship, Order(1), prio=1)  # refused
        await ctx.spawn(Order, Order(1))  # refused
        await ctx.gather(Ship, [1])  # refused
        await ctx.gather(Ship, Order(1))  # refused
        ctx.wait_for("key", timeout_s=1)  # refused
        await ctx.wait_for("key")  # refused
        await ctx.wait_for("key", timeout_s="soon")  # refused
        await ctx.effect("key", send=send_nothing)  # refused
        await ctx.effect("key")  # refused
        await ctx.effect(7, send=send_nothing)  # refused
        await ctx.checkpoint("name")  # refused
        await ctx.call(send_nothing)  # refused
        await ctx.call(lambda: send_nothing("x"), timeout=5)  # refused
        answer = await ctx.wait_for("key", timeout_s=1)
        outcomes = await ctx.gather(Weigh, [order])
        print(outcomes[0].value)  # refused
        return str(answer.value)  # refused

    @stage()
    def plain(self, ctx: SyncContext, order: Order) -> str:
        ctx.spawn(Ship, 1)  # refused
        ctx.wait_for("key")  # refused
        ctx.effect("key", send=7)  # refused
        return ctx.checkpoint("number", lambda: 7)  # refused


async def asked(client: Client) -> None:
    client.answer("key", 1)  # refused
    await client.answer(7, 1)  # refused
    print((await client.status("id")).stat)  # refused
    await client.result("id", timeout_s=1)  # refused
    await client.enqueue_many(Ship, [Order(1)], key="same")  # refused


app.schedule("0 3 * * *", Ship, Order(1), overlap="never")  # refused
app.schedule("0 3 * * *", Ship, Order(1), tz="UTC")  # refused
app.schedule("0 3 * * *", Ship)  # refused

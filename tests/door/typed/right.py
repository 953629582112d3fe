"""Code that a type checker must accept."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

import psycopg
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from holdfast import (
    App,
    Client,
    Context,
    Failure,
    Job,
    JobTx,
    Priority,
    Provider,
    Retry,
    Settled,
    Success,
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


@app.job(deadline_s=900)
class Ship(Job[Order]):
    @stage(provider=bank, retry=Retry(attempts=3))
    async def pay(self, ctx: Context, order: Order) -> str:
        async def charge() -> str:
            return "charge"

        async def send(token: str) -> str:
            return token

        await ctx.progress(done=1, of=2)
        await ctx.effect(("charge", order.id), send=send)
        return await ctx.call(charge, timeout_s=5) + await ctx.paid_call(send, answer=str)


@app.job()
class Count(Job[int]):
    @stage()
    async def count(self, ctx: Context, number: int) -> None: ...


def sync(connection: sqlite3.Connection, session: Session, postgres: psycopg.Connection[tuple[object, ...]]) -> str:
    enqueue(connection, Ship, Order(1))
    enqueue(postgres, Count, 1, key="a", delay_s=1, priority=Priority.HIGH, deadline_s=2.5, owner="ann", trace=None)
    enqueue(connection, Count, 1, autocommit=True)
    ids: list[str] = enqueue_many(session, Ship, [Order(1)], key=lambda order: str(order.id), delay_s=1)
    return enqueue(session, Ship, Order(1)) + ids[0]


async def asynchronous(session: AsyncSession, connection: AsyncConnection) -> str:
    ids: list[str] = await enqueue_many(connection, Count, range(3), priority=None)
    job_id: str = await enqueue(session, Ship, Order(1), key="a")
    return job_id + ids[0]


@app.job()
class Weigh(Job[Order, float]):
    @stage()
    async def weigh(self, ctx: Context, order: Order) -> float:
        async def look_up() -> dict[str, int]:
            return {"grams": 7}

        grams: int = (await ctx.checkpoint("grams", look_up))["grams"]
        other: Order = await ctx.checkpoint("order", lambda: order, returns=Order)
        answer = await ctx.wait_for(f"weight/{other.id}", timeout_s=grams)
        if answer is not None and isinstance(answer.value, float):
            return answer.value
        weights: list[Success[float] | Failure] = await ctx.gather(Weigh, [order])
        return sum(each.value for each in weights if isinstance(each, Success))

    async def on_settled(self, tx: JobTx, change: Settled) -> None:
        if change.state == "succeeded":
            await tx.execute("UPDATE orders SET weighed = :now", now=change.now)
            await tx.enqueue(Ship, Order(1), key="a", delay_s=1)


async def outside() -> float:
    async with Client.open(app, database="sqlite:///shop.db") as client:
        job_id: str = await client.enqueue(Weigh, Order(1), key="a", priority=Priority.HIGH)
        await client.enqueue_many(Weigh, [Order(1)], key=lambda order: str(order.id))
        text: str = (await client.wait(job_id, timeout_s=5)).why
        await client.answer(text, {"yes": True})
        return await client.result(Weigh, job_id, timeout_s=5) * 2


def outside_without_a_loop(client: SyncClient) -> float:
    return client.result(Weigh, client.enqueue(Weigh, Order(1)), timeout_s=5) * 2


async def tested(world: World) -> str:
    return await world.enqueue(Ship, Order(1), key="a", delay_s=1)


app.schedule("0 3 * * *", Ship, Order(1), name="nightly")
app.schedule("0 3 * * *", Ship, Order(1), name="in time", timezone="Europe/Berlin", jitter_s=5, overlap="skip")


@app.job()
class Fan(Job[Order, str]):
    @stage(provider=bank)
    async def fan(self, ctx: Context, order: Order) -> str:
        child: str = await ctx.spawn(Ship, order, delay_s=5, priority=Priority.LOW)
        message: str = ctx.emit("shop/done", {"id": order.id}, type="done", headers={"a": "b"})
        outcomes = await ctx.gather(Weigh, (Order(number) for number in range(3)))
        total: float = sum(each.value for each in outcomes if isinstance(each, Success))
        return child + message + str(total) + ctx.callback_url("key", expires_s=60)

    @stage(provider=bank)
    def plain(self, ctx: SyncContext, order: Order, fan: str) -> str:
        number: int = ctx.checkpoint("number", lambda: 7)
        answer = ctx.wait_for("key", timeout_s=number)
        text: str = ctx.call(lambda: "text", timeout_s=5) + ctx.effect(("a", 1), send=lambda token: token)
        return text + ctx.spawn(Ship, order) + str(answer is not None and answer.value)

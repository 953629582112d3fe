"""Bells and what answers them, without a broker: who is rung for, how often, and what a breaker does to it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace

import pytest
from pydantic import BaseModel

from holdfast import App, Breaker, CallError, Category, Context, Job, Provider, Retry, stage
from holdfast.engines.celery_worker import Runner
from holdfast.engines.doorbell import RungRecently, doorbell, ring_once
from holdfast.kernel.hold import hold_once
from holdfast.kernel.reap import reap_once
from holdfast.testing import World, world
from holdfast.transports.memory import MemoryTransport
from holdfast.transports.seam import Queue

BELL = Queue(doorbell("shop"), sink=True)
PRESS = Provider("press", breaker=Breaker(window=4, cooldown_s=30, trials=2))


class Order(BaseModel):
    number: int


@dataclass
class Outside:
    """The world outside as this test wants it."""

    down: bool = False
    calls: int = 0
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    hold: asyncio.Event | None = None


def shop(outside: Outside) -> App:
    app = App("shop", queues=[BELL])

    @app.job(name="order")
    class PlaceOrder(Job[Order]):
        @stage()
        async def check(self, ctx: Context, order: Order) -> int:
            outside.entered.set()
            if outside.hold is not None:
                await outside.hold.wait()
            return order.number

        @stage(provider=PRESS, retry=Retry(attempts=50, base_s=0.001))
        async def print(self, ctx: Context, order: Order, check: int) -> int:
            return await ctx.call(lambda: press(order.number))

    async def press(number: int) -> int:
        outside.calls += 1
        if outside.down:
            raise CallError.of(Category.UPSTREAM, "UPSTREAM_INTERNAL", "500", faults=True)
        return number

    return app


def order_of(w: World) -> type[Job[Order]]:
    declared: type[Job[Order]] = type(w.kernel.registry.kinds["order"].instance)
    return declared


def rung(w: World) -> list[str]:
    """The ids that were rung for since the last look."""
    transport = w.kernel.transport
    assert isinstance(transport, MemoryTransport)
    sink = transport.sinks[BELL.name]
    ids = [json.loads(message.body)[0][0] for message in sink]
    sink.clear()
    return ids


@pytest.mark.spec("K20")
async def test_a_due_job_is_rung_for_once_and_again_only_when_nobody_answered() -> None:
    async with world(shop(Outside())) as w:
        due, _later = (
            await w.enqueue(order_of(w), Order(number=1)),
            await w.enqueue(order_of(w), Order(number=2), delay_s=3_600),
        )
        bells = RungRecently("shop", again_s=30)
        assert (await ring_once(w.kernel, bells), rung(w)) == (1, [due])
        assert (await ring_once(w.kernel, bells), rung(w)) == (0, [])
        w.clock.advance(29)
        assert await ring_once(w.kernel, bells) == 0
        w.clock.advance(1)
        assert (await ring_once(w.kernel, bells), rung(w)) == (1, [due])


@pytest.mark.spec("K20", "K6")
async def test_the_next_stage_is_rung_for_at_once_and_a_repeated_bell_finds_nothing() -> None:
    async with world(shop(Outside())) as w:
        job = await w.enqueue(order_of(w), Order(number=1))
        bells, runner = RungRecently("shop"), Runner(w.kernel)
        await ring_once(w.kernel, bells)
        assert await runner.run(job) is True
        assert await ring_once(w.kernel, bells) == 1
        assert await runner.run(job) is True
        assert await runner.run(job) is False
        assert rung(w) == [job, job]
        assert await w.state(job) == "succeeded"
        assert [kind for kind in await w.events(job) if kind == "claimed"] == ["claimed"] * 2


@pytest.mark.spec("K20")
async def test_a_doorbell_that_is_not_there_yet_costs_nothing_and_is_rung_when_it_is() -> None:
    async with world(shop(Outside())) as w:
        job = await w.enqueue(order_of(w), Order(number=1))
        bells = RungRecently("shop")
        w.kernel.transport = MemoryTransport()
        assert await ring_once(w.kernel, bells) == 0
        await w.kernel.transport.declare([BELL])
        assert (await ring_once(w.kernel, bells), rung(w)) == (1, [job])


@pytest.mark.spec("K20", "K9")
async def test_an_open_breaker_parks_jobs_unrung_and_trials_close_it_again() -> None:
    outside = Outside(down=True)
    async with world(shop(outside)) as w:
        ids = [await w.enqueue(order_of(w), Order(number=n)) for n in range(10)]
        bells, runner = RungRecently("shop", again_s=0), Runner(w.kernel)

        async def work() -> None:
            while await ring_once(w.kernel, bells):
                for job in rung(w):
                    await runner.run(job)

        await work()
        calls = outside.calls
        assert calls == 4, "the window is four calls; after that nobody is called"
        w.clock.advance(1)
        await work()
        assert (outside.calls, await ring_once(w.kernel, bells)) == (calls, 0)
        assert {(await w.job(job))["parked"] for job in ids} == {1}
        outside.down = False
        for _ in range(20):
            w.clock.advance(31)
            await hold_once(w.kernel)
            await work()
        assert {await w.state(job) for job in ids} == {"succeeded"}


@pytest.mark.spec("K3", "K20")
async def test_an_attempt_whose_lease_is_lost_is_stopped_and_writes_nothing() -> None:
    outside = Outside(hold=asyncio.Event())
    async with world(shop(outside)) as w:
        w.kernel.tuning = replace(w.kernel.tuning, lease_s=1, renew_s=0.01)
        job = await w.enqueue(order_of(w), Order(number=1))
        running = asyncio.create_task(Runner(w.kernel).run(job))
        await outside.entered.wait()
        w.kernel.tuning = replace(w.kernel.tuning, renew_s=3_600)
        w.clock.advance(60)
        await reap_once(w.kernel)
        w.kernel.tuning = replace(w.kernel.tuning, renew_s=0.01)
        await asyncio.wait_for(running, 10)
        assert await w.state(job) == "queued"
        assert (await w.events(job))[-1] == "lost"


@pytest.mark.spec("K16", "K20")
async def test_an_attempt_that_is_cut_short_gives_its_job_back_uncounted() -> None:
    outside = Outside(hold=asyncio.Event())
    async with world(shop(outside)) as w:
        job = await w.enqueue(order_of(w), Order(number=1))
        running = asyncio.create_task(Runner(w.kernel).run(job))
        await outside.entered.wait()
        running.cancel()
        await asyncio.wait([running])
        row = await w.job(job)
        assert (row["state"], row["failures"], row["crashes"], row["lease_owner"]) == ("queued", 0, 0, None)

"""What comes from outside: a message has its effects once, and a waiting job is called back once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import App, Context, Job, Wait, stage
from holdfast.kernel import operate
from holdfast.kernel.intake import called_back, once
from holdfast.kernel.submit import prepare, submit_in
from holdfast.testing import HandClock, World
from holdfast.transports.seam import Delivery, Queue
from tests.kernel.places import Deploy, Place, close_all, rows

app = App("intake", queues=[Queue("orders")])


@app.job(deadline_s=3_600)
class Ask(Job[str]):
    @stage()
    async def ask(self, ctx: Context, key: str) -> dict[str, Any] | Wait:
        return Wait(key, within_s=100)

    @stage()
    async def use(self, ctx: Context, key: str, ask: dict[str, Any]) -> str:
        return str(ask["said"])


async def take_order(kernel: Any, message_id: str, body: bytes = b"x") -> bool:
    async with once(kernel, "orders", message_id, body) as (tx, first):
        if first:
            order = prepare(Ask.__holdfast__, f"order-{message_id}", job_id=kernel.new_id(), now=kernel.now())
            await submit_in(tx, [order], kernel.now())
    return first


async def jobs_there(world: World) -> int:
    return int((await rows(world.kernel.store, "SELECT COUNT(*) AS n FROM holdfast_jobs"))[0]["n"])


@pytest.mark.spec("K11")
async def test_a_duplicate_message_has_no_effect(deploy: Deploy) -> None:
    world = await deploy(app)
    assert [await take_order(world.kernel, "m1"), await take_order(world.kernel, "m1")] == [True, False]
    assert await take_order(world.kernel, "m2") and await jobs_there(world) == 2


@pytest.mark.spec("K11")
async def test_concurrent_deliveries_of_one_message_have_one_effect(place: Place, clock: HandClock) -> None:
    kernels = [place.kernel(app, clock=clock, seed=n) for n in range(3)]
    firsts = await asyncio.gather(*[take_order(kernel, "same") for kernel in kernels * 3])
    assert sorted(firsts) == [False] * 8 + [True]
    assert len(await rows(kernels[0].store, "SELECT id FROM holdfast_jobs")) == 1
    await close_all(place)


@pytest.mark.spec("K11")
@pytest.mark.parametrize("failpoint, kept", [("intake.before_commit", 0), ("intake.after_commit", 1)])
async def test_record_and_effects_stand_or_fall_together_and_the_ack_comes_after(
    deploy: Deploy, failpoint: str, kept: int
) -> None:
    world = await deploy(app)
    acked = []

    async def handle(delivery: Delivery) -> None:
        await take_order(world.kernel, str(delivery.message_id), delivery.body)
        acked.append(delivery.message_id)

    delivery = Delivery("orders", b"x", "m1")
    world.crash_at(failpoint)
    await world._as_a_process(handle(delivery))
    assert world.crashes == 1 and acked == [] and await jobs_there(world) == kept
    await handle(delivery)
    assert acked == ["m1"] and await jobs_there(world) == 1


@pytest.mark.spec("K11")
async def test_a_handler_that_raises_leaves_the_message_unseen(deploy: Deploy) -> None:
    world = await deploy(app)
    with pytest.raises(ValueError):
        async with once(world.kernel, "orders", "m1", b"x"):
            raise ValueError("not today")
    assert await take_order(world.kernel, "m1")


@pytest.mark.spec("K15", "K11")
async def test_a_waiting_job_goes_on_with_its_callback_and_ignores_the_duplicate(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Ask, "k1")
    await world.work()
    row = await world.job(job_id)
    assert (row["state"], row["wait_key"], row["lease_until"]) == ("waiting", "k1", None)
    assert row["run_at"] == world.clock.now_ms() + 100_000
    assert await called_back(world.kernel, "k1", "c1", '{"said": "yes"}')
    assert not await called_back(world.kernel, "k1", "c1", '{"said": "yes"}')
    assert not await called_back(world.kernel, "k1", "c2", '{"said": "no"}')
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded"
    assert await world.results(job_id) == {"ask": '{"said": "yes"}', "use": '"yes"'}


@pytest.mark.spec("K11")
async def test_a_callback_that_is_early_is_not_lost_when_it_is_sent_again(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Ask, "k1")
    assert not await called_back(world.kernel, "k1", "c1", '{"said": "early"}')
    await world.work()
    assert await called_back(world.kernel, "k1", "c1", '{"said": "early"}')
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded"


@pytest.mark.spec("K14", "K15")
async def test_a_job_that_nobody_calls_back_is_overdue(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Ask, "k1")
    await world.work()
    world.clock.advance(100)
    await world.tick()
    assert await world.state(job_id) == "waiting", "its last millisecond is still in time"
    world.clock.advance(0.001)
    assert await called_back(world.kernel, "k1", "c1", '{"said": "late"}'), "received, and too late"
    assert await world.state(job_id) == "dead"
    (letter,) = await world.dead_letters()
    assert (letter["error_class"], letter["failure_reason"]) == ("CALLBACK_OVERDUE", "deadline")
    found = await rows(world.kernel.store, "SELECT is_late, value FROM holdfast_results")
    assert found == [{"is_late": 1, "value": '{"said": "late"}'}]
    other = await world.enqueue(Ask, "k2")
    await world.work()
    world.clock.advance(101)
    await world.tick()
    assert await world.state(other) == "dead" and not await called_back(world.kernel, "k2", "c2", "{}")


@pytest.mark.spec("K15", "K18")
async def test_a_waiting_job_can_be_cancelled_and_then_nobody_waits(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id = await world.enqueue(Ask, "k1")
    await world.work()
    await operate.cancel(world.kernel, job_id, "ann")
    assert not await called_back(world.kernel, "k1", "c1", "{}")
    assert await world.state(job_id) == "cancelled"

"""The simulated broker: what it takes it keeps, what is unacked it gives again, and it logs all of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from holdfast.errors import TransportDown, Unroutable
from holdfast_proof.broker import Broker, BrokerDown, Faults, SimDelivery
from holdfast_proof.loop import SimLoop

HOUR_MS = 3_600_000
Scenario = Callable[[SimLoop, Broker], Awaitable[None]]


def play(scenario: Scenario, faults: Faults | None = None, *, seed: int = 1) -> Broker:
    with SimLoop(seed) as loop:
        broker = Broker(loop, loop.stream("broker"), faults)
        broker.declare("jobs")

        async def main() -> None:
            await scenario(loop, broker)

        loop.run(main(), until_ms=HOUR_MS)
        return broker


def kinds(broker: Broker, message_id: str) -> list[str]:
    return [event.kind for event in broker.log if event.message_id == message_id]


async def take(delivery: SimDelivery) -> None:
    await delivery.ack()


async def publish_all(broker: Broker, count: int) -> list[str]:
    """Publish until confirmed, as a relay does; return the ids in order."""
    ids = [f"m{n}" for n in range(count)]
    for message_id in ids:
        while True:
            try:
                async with asyncio.timeout(1):
                    await broker.publish("jobs", message_id, b"body", {"n": message_id})
                break
            except (TransportDown, TimeoutError):
                await asyncio.sleep(0.1)
    return ids


def test_a_message_is_confirmed_delivered_and_acked_once_on_a_good_day() -> None:
    got: list[tuple[str, bytes, str, bool, str]] = []

    async def scenario(loop: SimLoop, broker: Broker) -> None:
        async def handle(delivery: SimDelivery) -> None:
            host = loop.current.name
            got.append((delivery.message_id, delivery.body, delivery.headers["k"], delivery.redelivered, host))
            await delivery.ack()

        broker.consume("jobs", loop.host("worker"), handle)
        await broker.publish("jobs", "m", b"body", {"k": "v"})
        await asyncio.sleep(1)
        assert broker.held("jobs") == []

    broker = play(scenario)
    assert got == [("m", b"body", "v", False, "worker")]
    assert sorted(kinds(broker, "m")) == ["acked", "confirmed", "delivered", "publishing", "taken"]


def test_unacked_messages_of_a_killed_host_go_to_another_marked_as_redelivered() -> None:
    got: list[tuple[str, str, bool]] = []

    async def scenario(loop: SimLoop, broker: Broker) -> None:
        async def hang(delivery: SimDelivery) -> None:
            got.append((loop.current.name, delivery.message_id, delivery.redelivered))
            await asyncio.sleep(1000)

        async def handle(delivery: SimDelivery) -> None:
            got.append((loop.current.name, delivery.message_id, delivery.redelivered))
            await delivery.ack()

        doomed = loop.host("doomed")
        broker.consume("jobs", doomed, hang)
        await broker.publish("jobs", "m", b"", {})
        await asyncio.sleep(1)
        doomed.kill()
        broker.consume("jobs", loop.host("heir"), handle)
        assert broker.held("jobs") == ["m"]
        await asyncio.sleep(10)
        assert broker.held("jobs") == []

    play(scenario)
    assert got == [("doomed", "m", False), ("heir", "m", True)]


def test_an_ack_on_its_way_arrives_although_its_sender_dies() -> None:
    async def scenario(loop: SimLoop, broker: Broker) -> None:
        async def handle(delivery: SimDelivery) -> None:
            await delivery.ack()
            await loop.die()

        broker.consume("jobs", loop.host("worker"), handle)
        await broker.publish("jobs", "m", b"", {})
        await asyncio.sleep(10)
        assert broker.held("jobs") == []

    play(scenario)


def test_a_publisher_that_died_may_have_published() -> None:
    async def scenario(loop: SimLoop, broker: Broker) -> None:
        host = loop.host("publisher")
        host.spawn(broker.publish("jobs", "m", b"", {}))
        while not broker.log:  # noqa: ASYNC110
            await asyncio.sleep(0)
        host.kill()
        await asyncio.sleep(1)
        assert broker.held("jobs") == ["m"]

    play(scenario)


def test_a_refused_message_is_not_taken_and_a_lost_confirm_hides_one_that_was() -> None:
    async def scenario(loop: SimLoop, broker: Broker) -> None:
        for faults, held in ((Faults(refused=1), []), (Faults(confirm_lost=1), ["m"])):
            broker.faults = faults
            with pytest.raises(BrokerDown):
                await broker.publish("jobs", "m", b"", {})
            assert broker.held("jobs") == held
        broker.faults = Faults(confirm_never=1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(broker.publish("jobs", "n", b"", {}), 30)
        assert broker.held("jobs") == ["m", "n"]
        with pytest.raises(Unroutable):
            await broker.publish("nowhere", "m", b"", {})

    play(scenario)
    assert issubclass(BrokerDown, TransportDown) and issubclass(BrokerDown, ConnectionError)


def test_the_prefetch_limit_holds() -> None:
    at_once: list[int] = []

    async def scenario(loop: SimLoop, broker: Broker) -> None:
        running = 0

        async def handle(delivery: SimDelivery) -> None:
            nonlocal running
            running += 1
            at_once.append(running)
            await asyncio.sleep(1)
            running -= 1
            await delivery.ack()

        await publish_all(broker, 12)
        broker.consume("jobs", loop.host("worker"), handle, prefetch=3)
        await asyncio.sleep(30)
        assert broker.held("jobs") == []

    play(scenario)
    assert max(at_once) == 3 and len(at_once) == 12


def test_a_handler_that_raises_or_nacks_gives_its_message_back() -> None:
    seen: list[tuple[int, bool]] = []

    async def scenario(loop: SimLoop, broker: Broker) -> None:
        async def handle(delivery: SimDelivery) -> None:
            seen.append((len(seen), delivery.redelivered))
            if len(seen) == 1:
                raise ValueError("poison")
            if len(seen) == 2:
                await delivery.nack()
            else:
                await delivery.nack(requeue=False)

        broker.consume("jobs", loop.host("worker"), handle)
        await broker.publish("jobs", "m", b"", {})
        await asyncio.sleep(10)
        assert broker.held("jobs") == [] and [message.message_id for message in broker.rejected] == ["m"]

    broker = play(scenario)
    assert seen == [(0, False), (1, True), (2, True)]
    assert "raised ValueError" in kinds(broker, "m")


def test_an_ack_over_a_lost_connection_is_refused_and_the_message_comes_again() -> None:
    refused: list[str] = []

    async def scenario(loop: SimLoop, broker: Broker) -> None:
        async def handle(delivery: SimDelivery) -> None:
            if not delivery.redelivered:
                broker.disconnect(delivery.consumer)
                with pytest.raises(BrokerDown):
                    await delivery.ack()
                refused.append(delivery.message_id)
            else:
                await delivery.ack()

        broker.consume("jobs", loop.host("worker"), handle)
        await broker.publish("jobs", "m", b"", {})
        await asyncio.sleep(10)
        assert broker.held("jobs") == []

    broker = play(scenario)
    assert refused == ["m"] and kinds(broker, "m").count("delivered") == 2


def test_a_lost_ack_delivers_again_what_was_done() -> None:
    async def scenario(loop: SimLoop, broker: Broker) -> None:
        broker.consume("jobs", loop.host("worker"), take)
        await broker.publish("jobs", "m", b"", {})
        await asyncio.sleep(2)
        broker.faults = Faults()
        await asyncio.sleep(10)
        assert broker.held("jobs") == []

    broker = play(scenario, Faults(ack_lost=1))
    assert kinds(broker, "m").count("delivered") >= 2 and kinds(broker, "m").count("acked") == 1


def test_a_restart_refuses_for_a_while_and_loses_no_message() -> None:
    async def scenario(loop: SimLoop, broker: Broker) -> None:
        broker.consume("jobs", loop.host("early"), take)
        broker.restart(2_000)
        with pytest.raises(BrokerDown):
            await broker.publish("jobs", "refused", b"", {})
        await asyncio.sleep(1)
        broker.restart(3_000)
        await publish_all(broker, 5)
        await asyncio.sleep(30)
        assert broker.held("jobs") == []

    broker = play(scenario)
    assert min(event.at_ms for event in broker.log if event.kind == "taken") >= 4_000


def test_a_consumer_that_comes_while_the_broker_is_down_is_served_later() -> None:
    async def scenario(loop: SimLoop, broker: Broker) -> None:
        await publish_all(broker, 5)
        broker.restart(2_000)
        broker.consume("jobs", loop.host("worker"), take)
        assert len(broker.held("jobs")) == 5
        await asyncio.sleep(30)
        assert broker.held("jobs") == []

    play(scenario)


@pytest.mark.parametrize("seed", range(20))
def test_under_every_fault_what_was_confirmed_is_acked_in_the_end(seed: int) -> None:
    bad_day = Faults(
        refused=0.1,
        confirm_lost=0.1,
        confirm_never=0.1,
        duplicate=0.2,
        delayed=0.3,
        reordered=0.3,
        connection_lost=0.1,
        ack_lost=0.1,
    )

    async def scenario(loop: SimLoop, broker: Broker) -> None:
        for round in range(5):
            host = loop.host("worker")
            broker.consume("jobs", host, take, prefetch=2)
            await publish_all(broker, 4)
            host.kill()
            broker.restart(500 * round)
        broker.faults = replace(Faults(), latency_ms_max=3)
        broker.consume("jobs", loop.host("worker"), take)
        await asyncio.sleep(120)
        assert broker.held("jobs") == []

    broker = play(scenario, bad_day, seed=seed)
    acked = {event.message_id for event in broker.log if event.kind == "acked"}
    assert acked == {"m0", "m1", "m2", "m3"}
    assert [event.at_ms for event in broker.log] == sorted(event.at_ms for event in broker.log)


def test_messages_may_overtake_each_other_and_come_twice() -> None:
    order: list[str] = []

    async def scenario(loop: SimLoop, broker: Broker) -> None:
        async def handle(delivery: SimDelivery) -> None:
            order.append(delivery.message_id)
            await delivery.ack()

        ids = await publish_all(broker, 20)
        broker.consume("jobs", loop.host("worker"), handle, prefetch=1)
        await asyncio.sleep(100)
        assert sorted(set(order)) == sorted(ids)

    play(scenario, Faults(reordered=0.5, duplicate=0.5))
    assert order != sorted(order, key=lambda m: int(m[1:])) and len(order) > 20

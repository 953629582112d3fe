"""A broker that misbehaves as brokers may, and writes down what it did.

It lives in the world, outside every host: it takes a message whose publisher has died meanwhile, and notices a
dead consumer by its broken connection. Every fault here is one a correct AMQP broker can show a correct client:

    publish   refused before it was taken | taken, confirm lost | no answer at all | taken twice
    queue     delayed, reordered
    deliver   connection lost: unacked deliveries return to the queue, marked as redelivered
    ack       lost with its connection: the message comes again although the consumer was done with it

Messages are durable: a restart loses connections and confirms, never a message that was taken.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Mapping
from random import Random

from holdfast.errors import Unroutable
from holdfast_proof.hosts import Host
from holdfast_proof.loop import SimLoop
from holdfast_proof.messages import BrokerDown, BrokerEvent, Faults, Handler, SimConsumer, SimDelivery, SimMessage

__all__ = ["Broker", "BrokerDown", "BrokerEvent", "Faults", "SimConsumer", "SimDelivery"]


class Broker:
    """Named queues with confirms, prefetch and redelivery. `faults` may be replaced at any time."""

    def __init__(self, loop: SimLoop, dice: Random, faults: Faults | None = None) -> None:
        self.loop = loop
        self.dice = dice
        self.faults = faults or Faults()
        self.log: list[BrokerEvent] = []
        self.rejected: list[SimMessage] = []
        self._queues: dict[str, deque[SimMessage]] = {}
        self._travelling: dict[str, list[SimMessage]] = {}
        self._consumers: dict[str, list[SimConsumer]] = {}
        self._tags = itertools.count(1)
        self._up_at_ms = 0

    def declare(self, queue: str) -> None:
        """Make the queue, unless it exists."""
        self._queues.setdefault(queue, deque())
        self._travelling.setdefault(queue, [])
        self._consumers.setdefault(queue, [])

    def held(self, queue: str) -> list[str]:
        """The ids of every message the broker still owes somebody: ready, delayed or unacked."""
        unacked = [d.message for consumer in self._consumers[queue] for d in consumer.unacked.values()]
        return [m.message_id for m in (*self._queues[queue], *self._travelling[queue], *unacked)]

    async def publish(self, queue: str, message_id: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Return when the broker has confirmed. BrokerDown leaves it open whether the message was taken."""
        await self.loop.gate()
        message = SimMessage(queue, message_id, body, dict(headers))
        confirm: asyncio.Future[Exception | None] = self.loop.create_future()
        self._note("publishing", message, self.loop.current)
        self.loop.world.after_ms(self._latency_ms(), self._arrive, message, self.loop.current, confirm)
        error = await confirm
        if error is not None:
            raise error

    def consume(self, queue: str, host: Host, handler: Handler, *, prefetch: int = 10) -> SimConsumer:
        """Call `handler` in `host` for every delivery. A handler that raises gives its message back."""
        consumer = SimConsumer(queue, host, handler, prefetch)
        self._consumers[queue].append(consumer)
        host.at_death(lambda _: self._notice_death(consumer))
        if self._is_down():
            consumer.connected = False
            self._reconnect_later(consumer)
        self._pump(queue)
        return consumer

    def restart(self, down_ms: int) -> None:
        """Break every connection and refuse everything for `down_ms`."""
        self._up_at_ms = max(self._up_at_ms, self.loop.now_ms + down_ms)
        for consumers in self._consumers.values():
            for consumer in consumers:
                self.disconnect(consumer)

    def disconnect(self, consumer: SimConsumer) -> None:
        """Break one consumer's connection; what it had in hand returns to the front of its queue."""
        if not consumer.connected:
            return
        consumer.connected = False
        consumer.connection += 1
        for delivery in reversed(list(consumer.unacked.values())):
            self._put_back(delivery, "returned")
        consumer.unacked.clear()
        self._reconnect_later(consumer)
        self._pump(consumer.queue)

    # Publishing

    def _arrive(self, message: SimMessage, publisher: Host, confirm: asyncio.Future[Exception | None]) -> None:
        if self._is_down() or self._happens(self.faults.refused):
            self._note("refused", message, publisher)
            self._reply(confirm, BrokerDown(f"The broker refused message {message.message_id}."))
            return
        if message.queue not in self._queues:
            self._note("unroutable", message, publisher)
            self._reply(confirm, Unroutable(f"No queue '{message.queue}' for message {message.message_id}."))
            return
        self._take(message, publisher)
        if self._happens(self.faults.confirm_lost):
            self._note("confirm_lost", message, publisher)
            self._reply(confirm, BrokerDown(f"The confirm of message {message.message_id} was lost."))
        elif self._happens(self.faults.confirm_never):
            self._note("confirm_never", message, publisher)
        else:
            self.loop.world.after_ms(self._latency_ms(), self._confirm, message, publisher, confirm)

    def _take(self, message: SimMessage, publisher: Host) -> None:
        self._note("taken", message, publisher)
        late = self._happens(self.faults.delayed)
        if late:
            self._note("delayed", message, publisher)
        self._travel(message, self.dice.randint(1, self.faults.delay_ms_max) if late else 0)
        if self._happens(self.faults.duplicate):
            copy = SimMessage(message.queue, message.message_id, message.body, message.headers)
            self._note("duplicated", message, publisher)
            self._travel(copy, self.dice.randint(0, self.faults.duplicate_delay_ms_max))

    def _travel(self, message: SimMessage, delay_ms: int) -> None:
        if delay_ms == 0:
            self._enqueue(message)
            return
        self._travelling[message.queue].append(message)
        self.loop.world.after_ms(delay_ms, self._travelled, message)

    def _travelled(self, message: SimMessage) -> None:
        self._travelling[message.queue].remove(message)
        self._enqueue(message)

    def _enqueue(self, message: SimMessage) -> None:
        self._queues[message.queue].append(message)
        self._pump(message.queue)

    def _confirm(self, message: SimMessage, publisher: Host, confirm: asyncio.Future[Exception | None]) -> None:
        if self._is_down():
            self._note("confirm_lost", message, publisher)
            self._reply(confirm, BrokerDown(f"The broker stopped before it confirmed {message.message_id}."))
            return
        self._note("confirmed", message, publisher)
        self._reply(confirm, None)

    def _reply(self, confirm: asyncio.Future[Exception | None], error: Exception | None) -> None:
        if not confirm.done():  # the publisher may have given up
            confirm.set_result(error)

    # Delivering

    def _pump(self, queue: str) -> None:
        waiting = self._queues[queue]
        while waiting and not self._is_down():
            hungry = [consumer for consumer in self._consumers[queue] if consumer.hungry]
            if not hungry:
                return
            index = self.dice.randrange(len(waiting)) if self._happens(self.faults.reordered) else 0
            message, consumer = waiting[index], self.dice.choice(hungry)
            del waiting[index]
            if index:
                self._note("reordered", message, consumer.host)
            self._deliver(message, consumer)

    def _deliver(self, message: SimMessage, consumer: SimConsumer) -> None:
        tag = next(self._tags)
        delivery = SimDelivery(self, consumer, consumer.connection, tag, message, message.redelivered)
        consumer.unacked[tag] = delivery
        self.loop.world.after_ms(self._latency_ms(), self._hand_over, delivery)
        if self._happens(self.faults.connection_lost):
            self.loop.world.after_ms(self.dice.randint(0, 1_000), self._drop, consumer, consumer.connection)

    def _hand_over(self, delivery: SimDelivery) -> None:
        if self._is_stale(delivery) or delivery.consumer.host.dead:
            return
        self._note("delivered", delivery.message, delivery.consumer.host, delivery)
        delivery.consumer.host.spawn(self._handle(delivery), name=f"deliver-{delivery.tag}")

    async def _handle(self, delivery: SimDelivery) -> None:
        try:
            await delivery.consumer.handler(delivery)
        except Exception as error:
            self._note(f"raised {type(error).__name__}", delivery.message, delivery.consumer.host, delivery)
            if not self._is_stale(delivery):
                await delivery.nack()

    async def settle(self, delivery: SimDelivery, kind: str) -> None:
        """Send an answer to a delivery on its way. `SimDelivery.ack` and `SimDelivery.nack` call this."""
        await self.loop.gate()
        if self._is_stale(delivery):
            raise BrokerDown(f"The connection that delivered {delivery.message_id} is gone.")
        lost = self._happens(self.faults.ack_lost)
        self.loop.world.after_ms(self._latency_ms(), self._settled, delivery, kind, lost)
        await asyncio.sleep(0)

    def _settled(self, delivery: SimDelivery, kind: str, lost: bool) -> None:
        consumer = delivery.consumer
        if self._is_stale(delivery) or delivery.tag not in consumer.unacked:
            return
        if lost:
            self._note("ack_lost", delivery.message, consumer.host, delivery)
            self.disconnect(consumer)
            return
        del consumer.unacked[delivery.tag]
        if kind == "requeued":
            self._put_back(delivery, kind)
        else:
            self._note(kind, delivery.message, consumer.host, delivery)
        if kind == "rejected":
            self.rejected.append(delivery.message)
        self._pump(consumer.queue)

    def _put_back(self, delivery: SimDelivery, kind: str) -> None:
        delivery.message.redelivered = True
        self._note(kind, delivery.message, delivery.consumer.host, delivery)
        self._queues[delivery.message.queue].appendleft(delivery.message)

    # Connections

    def _notice_death(self, consumer: SimConsumer) -> None:
        consumer.cancelled = True
        delay_ms = self.dice.randint(0, self.faults.death_noticed_ms_max)
        self.loop.world.after_ms(delay_ms, self._drop, consumer, consumer.connection)

    def _drop(self, consumer: SimConsumer, connection: int) -> None:
        if consumer.connection == connection:
            self.disconnect(consumer)
        if consumer.host.dead and consumer in self._consumers[consumer.queue]:
            self._consumers[consumer.queue].remove(consumer)

    def _reconnect_later(self, consumer: SimConsumer) -> None:
        if not consumer.host.dead:
            down_ms = max(0, self._up_at_ms - self.loop.now_ms)
            delay_ms = down_ms + self.dice.randint(1, self.faults.reconnect_ms_max)
            self.loop.world.after_ms(delay_ms, self._reconnect, consumer)

    def _reconnect(self, consumer: SimConsumer) -> None:
        if self._is_down():  # it was restarted again
            self._reconnect_later(consumer)
            return
        consumer.connected = not consumer.host.dead
        self._pump(consumer.queue)

    # Small answers

    def _is_stale(self, delivery: SimDelivery) -> bool:
        return delivery.connection != delivery.consumer.connection

    def _is_down(self) -> bool:
        return self.loop.now_ms < self._up_at_ms

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self.dice.random() < probability

    def _latency_ms(self) -> int:
        # At least 1: time passes even if a message is given back again and again.
        return self.dice.randint(1, max(1, self.faults.latency_ms_max))

    def _note(self, kind: str, message: SimMessage, host: Host, delivery: SimDelivery | None = None) -> None:
        tag = delivery.tag if delivery else 0
        redelivered = delivery.redelivered if delivery else False
        now_ms, label = self.loop.now_ms, host.label
        self.log.append(BrokerEvent(now_ms, kind, message.queue, message.message_id, label, tag, redelivered))
        self.loop.record(f"broker {kind} {message.queue} {message.message_id} {label} {tag}")

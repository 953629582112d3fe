"""The transport seam over the simulated broker, as the RabbitMQ transport is over a real one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.errors import TransportDown
from holdfast.transports.seam import Delivery, Handler, Message, Queue
from holdfast_proof import messages
from holdfast_proof.broker import Broker
from holdfast_proof.loop import SimLoop

PUBLISH_TIMEOUT_S = 5.0
AGAIN_S = 6.0


@dataclass(slots=True)
class SimTransport:
    """A host's client of the broker. A destination is a queue's name, or exchange/routing_key of a declared queue."""

    broker: Broker
    loop: SimLoop

    async def declare(self, queues: Sequence[Queue]) -> None:
        """To declare nothing is to ask whether the broker is there, which it is here: what it does is lose confirms."""
        if queues:
            await self.loop.gate()
        for queue in queues:
            self.broker.declare(queue.name)

    async def publish(self, message: Message) -> None:
        queue = message.destination.rpartition("/")[2]
        try:
            async with asyncio.timeout(PUBLISH_TIMEOUT_S):
                await self.broker.publish(queue, message.id, message.body, message.headers)
        except TimeoutError:
            raise TransportDown(f"The broker did not confirm message {message.id} in time.") from None

    async def consume(self, queue: str, handler: Handler, *, prefetch: int = 20) -> None:
        """Hand over until cancelled. The ack goes out when the handler has returned, and not before."""

        async def handle(delivery: messages.SimDelivery) -> None:
            try:
                headers = dict(delivery.headers)
                await handler(Delivery(queue, delivery.body, delivery.message_id, headers, delivery.redelivered))
            except Exception:
                await asyncio.sleep(AGAIN_S)  # a message that cannot be handled now must not spin
                raise
            await delivery.ack()

        consumer = self.broker.consume(queue, self.loop.current, handle, prefetch=prefetch)
        try:
            await asyncio.Event().wait()
        finally:
            consumer.cancel()

    def place(self) -> str:
        return "simulated"

    async def reach(self) -> None:
        pass

    def trouble(self) -> str | None:
        return None

    def stalled(self) -> Mapping[str, str]:
        return {}

    async def close(self) -> None:
        """Nothing is kept open."""

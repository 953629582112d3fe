"""What passes between the simulated broker and its clients, and what it may do to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.errors import TransportDown
from holdfast_proof.hosts import Host

if TYPE_CHECKING:
    from holdfast_proof.broker import Broker


class BrokerDown(TransportDown, ConnectionError):
    """The connection broke. The message may or may not have been taken."""


@dataclass(frozen=True, slots=True)
class Faults:
    """How often what goes wrong. Probabilities per publish, take, delivery or ack; the default is a good day."""

    refused: float = 0.0
    confirm_lost: float = 0.0
    confirm_never: float = 0.0
    duplicate: float = 0.0
    duplicate_delay_ms_max: int = 60_000
    delayed: float = 0.0
    delay_ms_max: int = 5_000
    reordered: float = 0.0
    connection_lost: float = 0.0
    ack_lost: float = 0.0
    latency_ms_max: int = 5
    death_noticed_ms_max: int = 2_000
    reconnect_ms_max: int = 1_000


@dataclass(frozen=True, slots=True)
class BrokerEvent:
    """One line of the broker's log. `host` is the publisher or the consumer; `tag` numbers deliveries."""

    at_ms: int
    kind: str
    queue: str
    message_id: str
    host: str
    tag: int = 0
    redelivered: bool = False


@dataclass(eq=False, slots=True)
class SimMessage:
    """One copy of a message inside the broker."""

    queue: str
    message_id: str
    body: bytes
    headers: Mapping[str, str]
    redelivered: bool = False


@dataclass(eq=False, slots=True)
class SimDelivery:
    """One message in the hands of one consumer. Acks of a connection that is gone raise BrokerDown."""

    broker: Broker
    consumer: SimConsumer
    connection: int
    tag: int
    message: SimMessage
    redelivered: bool

    @property
    def message_id(self) -> str:
        return self.message.message_id

    @property
    def body(self) -> bytes:
        return self.message.body

    @property
    def headers(self) -> Mapping[str, str]:
        return self.message.headers

    async def ack(self) -> None:
        """Done with it. Returns when the ack is on its way, which is not when the broker has it."""
        await self.broker.settle(self, "acked")

    async def nack(self, *, requeue: bool = True) -> None:
        """Give it back to the queue, or drop it to the broker's dead letters."""
        await self.broker.settle(self, "requeued" if requeue else "rejected")


Handler = Callable[[SimDelivery], Awaitable[object]]


@dataclass(eq=False, slots=True)
class SimConsumer:
    """A subscription. Its connection number rises whenever the connection is lost; it reconnects by itself."""

    queue: str
    host: Host
    handler: Handler
    prefetch: int
    connection: int = 1
    connected: bool = True
    cancelled: bool = False
    unacked: dict[int, SimDelivery] = field(default_factory=dict)

    def cancel(self) -> None:
        """Take no further deliveries. Those in hand may still be acked."""
        self.cancelled = True

    @property
    def hungry(self) -> bool:
        return self.connected and not self.cancelled and len(self.unacked) < self.prefetch

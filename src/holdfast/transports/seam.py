"""The transport seam: a broker moves messages, it decides nothing.

`publish` returns when the broker has confirmed the message; `TransportDown` means that nobody knows whether it was
taken, `Unroutable` that this message can reach no queue, `NotHandled` that it is to be published again because its
handler failed (where publishing hands over directly). A consumed message is acked when its handler returns and offered
again when the handler raises.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Message:
    """A message on its way. `destination` is a queue, or `exchange/routing_key`."""

    id: str
    destination: str
    body: bytes
    type: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json; charset=utf-8"
    correlation_id: str | None = None
    persistent: bool = True


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message that arrived."""

    queue: str
    body: bytes
    message_id: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    redelivered: bool = False
    genuine: bool = True
    """False: keys are set, and it carries no right signature."""


Handler = Callable[[Delivery], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue and the exchange it is bound to. `sink`: its messages are for people. They stay there where people can
    look at them (`Lookable`); only a transport without such a place hands them to the app's own consumer."""

    name: str
    exchange: str = ""
    routing_key: str = ""
    sink: bool = False


@dataclass(frozen=True, slots=True)
class HeldMessage:
    """A message that lies in a queue and is being looked at. `take` takes it away for good; without it, it stays."""

    delivery: Delivery
    take: Callable[[], Awaitable[None]]


@runtime_checkable
class Lookable(Protocol):
    """A transport that keeps messages where people can look at them without consuming them."""

    def look(self, queue: str) -> AbstractAsyncContextManager[AsyncIterator[HeldMessage]]:
        """What lies in the queue now, the oldest first. On leaving, all that was not taken lies there as before; it is
        hidden from other readers meanwhile."""
        ...


class Transport(Protocol):
    async def declare(self, queues: Sequence[Queue]) -> None:
        """Make sure that the queues exist, with plain arguments that a foreign service would use too. If the broker is
        away, no later publish gets ahead of them."""
        ...

    async def publish(self, message: Message) -> None: ...

    async def consume(self, queue: str, handler: Handler, *, prefetch: int = 20) -> None:
        """Hand every message of the queue to the handler until cancelled. Survives the loss of the broker."""
        ...

    def place(self) -> str:
        """Which broker it is, without its secrets, for people."""
        ...

    async def reach(self) -> None:
        """Find out whether the broker can be used now, in a moment: `trouble` says what came of it."""
        ...

    def trouble(self) -> str | None:
        """Why the broker cannot be used now, in words; None while it can, or while nobody has tried."""
        ...

    def stalled(self) -> Mapping[str, str]:
        """The queues that are to be consumed and are not now, each with the reason, in words."""
        ...

    async def close(self) -> None: ...

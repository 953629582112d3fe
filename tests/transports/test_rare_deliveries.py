"""Deliveries in moments that hardly ever come: again, failed again, kept for people, signed while keys change."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.transports.memory import MemoryTransport
from holdfast.transports.rabbitmq.consumer import PAUSE_CAP_S, PAUSE_S, REMEMBERED_MAX, Failures, Session
from holdfast.transports.rabbitmq.wire import delivery_of
from holdfast.transports.seam import Delivery, Message, Queue
from holdfast.transports.signed import SIGNATURE_HEADER, SignedTransport, sign


def arrived(*, redelivered: bool = False, message_id: str = "m") -> Any:
    """A message as the driver hands it over."""
    properties = SimpleNamespace(headers={"n": 7, "is": True}, message_id=message_id)
    header = SimpleNamespace(properties=properties)
    return SimpleNamespace(header=header, body=b"{}", redelivered=redelivered, delivery_tag=1)


@pytest.mark.spec("K10")
def test_a_delivery_says_whether_it_came_before() -> None:
    again, first = delivery_of("q", arrived(redelivered=True)), delivery_of("q", arrived())
    assert (again.redelivered, first.redelivered) == (True, False)
    assert first.headers == {"n": "7", "is": "true"}


@pytest.mark.spec("K10")
def test_a_message_that_fails_again_is_kept_for_twice_as_long_up_to_a_cap() -> None:
    failures, bad, other = Failures(), Delivery("q", b"bad"), Delivery("q", b"other", "m")
    pauses = [failures.pause_s(bad) for _ in range(8)]
    assert pauses == [
        PAUSE_S,
        2 * PAUSE_S,
        4 * PAUSE_S,
        8 * PAUSE_S,
        16 * PAUSE_S,
        32 * PAUSE_S,
        PAUSE_CAP_S,
        PAUSE_CAP_S,
    ]
    assert failures.pause_s(other) == PAUSE_S, "each message by itself"
    failures.forget(bad)
    assert failures.pause_s(bad) == PAUSE_S
    for number in range(REMEMBERED_MAX):
        failures.pause_s(Delivery("q", b"", f"{number}"))
    assert failures.pause_s(other) == PAUSE_S, "of so many failures the oldest are forgotten"


class Broker:
    """What a session says of deliveries, in order."""

    def __init__(self) -> None:
        self.answers: list[str] = []

    async def basic_ack(self, tag: int, wait: bool) -> None:
        self.answers.append("ack")

    async def basic_nack(self, tag: int, requeue: bool) -> None:
        self.answers.append("requeued" if requeue else "dropped")


@pytest.mark.spec("K10")
async def test_a_message_that_was_handled_at_last_begins_anew() -> None:
    outcomes: list[Exception | None] = [KeyError(), KeyError(), None]

    async def handle(delivery: Delivery) -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    broker, failures = Broker(), Failures()
    session = Session("q", handle, failures, on_begin=lambda: None)
    session._over.set()  # nothing is held for its pause
    for _ in range(3):
        await session._handle(broker, arrived())  # type: ignore[arg-type]
    assert (broker.answers, session.served) == (["requeued", "requeued", "ack"], 1)
    assert failures.pause_s(Delivery("q", b"{}", "m")) == PAUSE_S


@pytest.mark.spec("K10")
async def test_a_sink_keeps_the_last_messages_and_no_more() -> None:
    transport = MemoryTransport()
    await transport.declare([Queue("people", sink=True)])
    for number in range(1_001):
        await transport.publish(Message(f"{number}", "people", b""))
    kept = [message.id for message in transport.sinks["people"]]
    assert (len(kept), kept[0], kept[-1]) == (1_000, "1", "1000")


@pytest.mark.spec("K30")
async def test_the_first_key_signs() -> None:
    inner = MemoryTransport()
    await inner.declare([Queue("people", sink=True)])
    await SignedTransport(inner, ["new" * 11, "old" * 11]).publish(Message("m", "people", b"{}"))
    (message,) = inner.sinks["people"]
    assert message.headers == {SIGNATURE_HEADER: sign("new" * 11, b"{}")}

"""The in-process transport: whose fault it is when a message is not taken."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.errors import NotHandled, StoreBusy, TransportDown, TransportError
from holdfast.transports.memory import MemoryTransport
from holdfast.transports.seam import Delivery, Message, Queue


@pytest.mark.spec("K10", "K19")
@pytest.mark.parametrize(
    ("raised", "told"),
    [(StoreBusy("busy"), TransportDown), (TransportDown("away"), TransportDown), (KeyError(), NotHandled)],
)
async def test_a_consumer_without_its_database_is_no_messages_fault(
    raised: Exception, told: type[TransportError]
) -> None:
    """What fails every message alike is a broker that is away; the message is not counted down for it."""
    transport = MemoryTransport()
    await transport.declare([Queue("q")])

    async def handle(delivery: Delivery) -> None:
        raise raised

    consuming = asyncio.create_task(transport.consume("q", handle))
    await asyncio.sleep(0)
    with pytest.raises(told) as caught:
        await transport.publish(Message(id="m", destination="q", body=b"{}"))
    assert type(caught.value) is told
    consuming.cancel()

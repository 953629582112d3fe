"""PostgreSQL's notifications come back as soon as the server does, and not at the next look at the clock."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.stores.postgres import CLOCK_EVERY_S, PostgresStore
from holdfast.stores.seam import Listener
from tests.services.postgres import PostgresServer


async def until_still(listener: Listener) -> None:
    """Every listener is woken once whenever the connection stands."""
    assert await listener.wait(CLOCK_EVERY_S / 3), "the listener has not connected"
    while await listener.wait(0.2):
        pass


@pytest.mark.spec("K19", "K28")
@pytest.mark.parametrize("immediate", [True, False], ids=["crash", "restart"])
async def test_a_hint_rings_again_after_the_server_has_restarted(
    postgres_server: PostgresServer, immediate: bool
) -> None:
    store = PostgresStore(postgres_server.create_database())
    listener = store.listen("queue:x")
    await until_still(listener)
    await asyncio.to_thread(postgres_server.halt, immediate=immediate)
    postgres_server.resume()  # in this thread: a server ends with the thread that started it
    await until_still(listener)
    other = PostgresStore(store._url)
    async with other.transaction() as tx:
        await tx.notify("queue:x")
    assert await listener.wait(5)
    listener.close()
    await other.close()
    await store.close()

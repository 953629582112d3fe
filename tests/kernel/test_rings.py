"""Whoever waits for work in another process is woken by the commit that makes it, whichever statement wrote it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast import App, Context, Job, stage
from holdfast.core.outcome import Next
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.settle import Ending
from holdfast.kernel.submit import LOAD_ROWS_MIN, prepare, submit, submit_many, submit_orders
from holdfast.kernel.turn import turn
from holdfast.stores.clock import SystemClock
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.seam import Listener
from tests.kernel.places import Place, close_all, take

app = App("bells")


@app.job()
class Two(Job[str]):
    @stage()
    async def first(self, ctx: Context, text: str) -> str:
        return text

    @stage()
    async def second(self, ctx: Context, text: str, first: str) -> None: ...


async def alone(kernel: Kernel) -> None:
    await submit(kernel, Two, "one")


async def in_a_batch(kernel: Kernel) -> None:
    kind, now = Two.__holdfast__, kernel.now()
    await submit_orders(kernel, [prepare(kind, f"{n}", job_id=kernel.new_id(), now=now) for n in range(3)])


async def in_a_keyed_batch(kernel: Kernel) -> None:
    kind, now = Two.__holdfast__, kernel.now()
    orders = [prepare(kind, f"{n}", job_id=kernel.new_id(), now=now, key=kernel.new_id()) for n in range(3)]
    await submit_orders(kernel, orders)


async def by_bulk_load(kernel: Kernel) -> None:
    await submit_many(kernel, Two, ["one"] * LOAD_ROWS_MIN)


async def by_the_end_of_a_stage(kernel: Kernel) -> None:
    taken = await take(kernel, limit=1)
    await turn(kernel, "w1", kernel.registry.queues, [Ending(taken[0], Next('"x"'))], 0)


WAYS: tuple[Callable[[Kernel], Coroutine[Any, Any, None]], ...] = (
    alone, in_a_batch, in_a_keyed_batch, by_bulk_load, by_the_end_of_a_stage,
)  # fmt: skip


@pytest.mark.spec("K2", "K19")
async def test_work_that_was_made_elsewhere_rings(place: Place) -> None:
    kernel = place.kernel(app, clock=SystemClock())
    # Another process hears PostgreSQL's notifications; SQLite's file rings in its own process only.
    other = place.open() if place.dialect == "postgres" else kernel.store
    listener = other.listen("queue:bells")
    if isinstance(other, PostgresStore):
        assert await listener.wait(30), "every listener is woken once when the connection stands"
    for way in WAYS:
        await silent(listener)
        await way(kernel)
        assert await listener.wait(5), f"{way.__name__} rings nobody"
    listener.close()
    await close_all(place)


@pytest.mark.spec("K2")
async def test_every_ring_for_a_queue_has_a_ticket_so_that_one_worker_answers_it(place: Place) -> None:
    """SQLite's processes do not ring each other."""
    kernel, heard = place.kernel(app, clock=SystemClock()), place.open()
    tickets: list[str] = []
    listener = heard.listen("queue:bells", lambda ticket: bool(tickets.append(ticket)) or True)
    if isinstance(heard, PostgresStore):
        assert await listener.wait(30)
        for way in WAYS:
            await silent(listener)
            tickets.clear()
            await way(kernel)
            assert await listener.wait(5) and tickets and all(tickets), way.__name__
    listener.close()
    await close_all(place)


async def silent(listener: Listener) -> None:
    while await listener.wait(0.05):
        pass

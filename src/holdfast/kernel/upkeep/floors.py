"""Looks below the floors of the hot scans, beside them, when that takes long (`core.floor` says why).

A claim that is quick from the bottom is its own look. Behind many dead versions it is not: then a task of its own reads
what lies below, while claims go on above, and lowers the floors to what it finds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.core.floor import Floors, Lanes
from holdfast.errors import StoreError
from holdfast.kernel.kernel import Kernel
from holdfast.stores.seam import Tx
from holdfast.tables import lanes, outbox

OUTBOX = ("outbox", 0)
"""The one lane of the outbox."""
Look = Callable[[Tx, Floors], Awaitable[Floors]]


def watch_claims(kernel: Kernel) -> None:
    """Look below the lanes of the claims, if that is due and no claim does it."""

    async def look(tx: Tx, floors: Floors) -> Floors:
        return await lanes.below(tx, floors, kernel.registry.declared, kernel.now())

    _look_if_due(kernel, kernel.floors.claims, look)


def watch_outbox(kernel: Kernel) -> None:
    async def look(tx: Tx, floors: Floors) -> Floors:
        first = await outbox.first_pending(tx)
        return {} if first is None else {OUTBOX: first}

    _look_if_due(kernel, kernel.floors.outbox, look)


async def follow_aggregates(kernel: Kernel) -> None:
    """Look how far the messages of busy aggregates are published, if that is due: a part of what `unless_broken_off`
    watches over."""
    busy = kernel.aggregates
    if not busy.is_any_busy:
        return
    began = kernel.now()
    asked = busy.begin_look(began)
    if asked:
        async with kernel.store.reading() as tx:
            look = await outbox.look_at(tx, asked)
        busy.end_look(asked, look, began, kernel.now())


def _look_if_due(kernel: Kernel, of: Lanes, look: Look) -> None:
    began = kernel.now()
    if of.begin_look(began):
        task = asyncio.get_running_loop().create_task(_look(kernel, of, look, began))
        kernel.looking.add(task)
        task.add_done_callback(kernel.looking.discard)


def stop_looking(kernel: Kernel) -> None:
    """Give up the looks that are under way, before the store closes: nothing but speed rests on them."""
    for task in kernel.looking:
        task.cancel()


async def _look(kernel: Kernel, of: Lanes, look: Look, began: int) -> None:
    try:
        async with kernel.store.reading() as tx:
            entered = await look(tx, dict(of.floors))
    except StoreError:
        of.forget()  # the next claim is the look
    else:
        of.end_look(began, entered, kernel.now())

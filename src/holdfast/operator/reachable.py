"""Sets a system aside while its database does not answer, in a process that serves several: lists, ids and lights of
the others do not wait for it.

    shown --no answer, or a refusal--> aside --an answer--> shown
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from holdfast.errors import StoreError
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.loop import pause
from holdfast.system import OpenSystem

LOOK_S = 2.0
ANSWER_S = 3.0
"""A database that takes longer is set aside until it has answered."""


async def watch_databases(opened: Sequence[OpenSystem], stop: asyncio.Event) -> None:
    """Look at each database now and then, until the stop. One alone has nobody to hold up, and a file is there."""
    apart = [system for system in opened if not system.kernel.store.has_one_writer] if len(opened) > 1 else []
    async with asyncio.TaskGroup() as group:
        for system in apart:
            group.create_task(_watch(system, stop))


async def _watch(system: OpenSystem, stop: asyncio.Event) -> None:
    asking: asyncio.Task[str | None] | None = None
    try:
        while not stop.is_set():
            asking = asking or asyncio.create_task(_ask(system.kernel))
            await asyncio.wait([asking], timeout=ANSWER_S)
            why: str | None = f"no answer for {ANSWER_S:g} s"
            if asking.done():
                why, asking = asking.result(), None
            if why is not None and not system.is_awaited:
                system.kernel.watch.log("store.unreachable", system=system.name, error=why)
            system.kernel.is_away = why is not None
            await pause(stop, LOOK_S)
    finally:
        if asking is not None:
            asking.cancel()


async def _ask(kernel: Kernel) -> str | None:
    """None, or why there is no answer."""
    try:
        await kernel.store.installed()
    except StoreError as error:
        return str(error)
    return None

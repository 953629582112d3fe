"""A web process looks at every system now and then, for what no row can tell: how many jobs waited a while ago."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio

from holdfast.errors import HoldfastError
from holdfast.operator.desk import Desk
from holdfast.operator.history import LOOK_EVERY_S, Looks
from holdfast.operator.snapshot import snapshot


@asynccontextmanager
async def keep_looking(desk: Desk, looks: Looks) -> AsyncIterator[None]:
    """Look at every system now and then, for as long as the caller runs."""
    task = asyncio.ensure_future(_look_on(desk, looks))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _look_on(desk: Desk, looks: Looks) -> None:
    while True:
        for system in desk.systems:
            with suppress(HoldfastError):  # a store that is down for a while leaves a gap in a chart, no more
                with anyio.CancelScope(shield=True):  # a shutdown must not leave a transaction open
                    looks.add(system.name, await snapshot(system.kernel))
        await asyncio.sleep(LOOK_EVERY_S)

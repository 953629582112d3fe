"""Repeats steps. A step says how much it did; the runner sleeps only when it did nothing.

Tests, the simulator and `holdfast relay --once` call the very same steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from holdfast.errors import StoreError, TransportError
from holdfast.kernel.kernel import Kernel
from holdfast.stores.seam import Heed, Listener

FIRST_BACKOFF_S = 0.5
RUNNING = "running"
AWAITED = "waits for the database"
CANCEL_S = 1.0
T = TypeVar("T")
Every = float | Callable[[], float]
"""Seconds between two steps; what is not regular is asked for each time."""


async def repeat(
    kernel: Kernel,
    name: str,
    step: Callable[[Kernel], Awaitable[int]],
    every_s: Every,
    stop: asyncio.Event,
    channel: str | None = None,
    backoff_cap_s: float = 30.0,
    heed: Heed | None = None,
) -> None:
    """Run `step` until `stop`: again at once while it finds work, else every `every_s` or when `channel` rings.

    A database or broker that is away costs a bounded, jittered wait and a log line, never the loop."""
    listener = kernel.store.listen(channel, heed) if channel else None
    backoff_s = 0.0
    try:
        while not stop.is_set():
            try:
                did = await step(kernel)
                backoff_s = 0.0
                kernel.duties[name] = RUNNING
            except (StoreError, TransportError) as error:
                backoff_s = min(backoff_cap_s, max(FIRST_BACKOFF_S, backoff_s * 2))
                kernel.duties[name] = f"failed, runs again in {backoff_s:g} s: {error}"
                kernel.watch.log("step.failed", step=name, error=str(error), wait_s=backoff_s)
                await pause(stop, backoff_s * (0.5 + kernel.dice.draw() / 2))
                continue
            if did == 0:
                await _idle(listener, stop, every_s() if callable(every_s) else every_s)
    finally:
        if listener is not None:
            listener.close()


async def pause(stop: asyncio.Event, seconds: float) -> None:
    """Sleep, but not past the stop."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()


async def unless_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """What `work` returns; None if the stop comes first. Then the work is cancelled, and not waited for long: it may
    hang on a server that does not answer."""
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        working.cancel()
        await asyncio.wait([working], timeout=CANCEL_S)
        return None
    finally:
        working.cancel()
        stopping.cancel()


async def _idle(listener: Listener | None, stop: asyncio.Event, every_s: float) -> None:
    if listener is None:
        await pause(stop, every_s)
        return
    waiting = [
        asyncio.ensure_future(listener.wait(every_s)),
        asyncio.ensure_future(stop.wait()),
    ]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

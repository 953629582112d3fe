"""Repeats steps. A step says how much it did; the runner sleeps only when it did nothing.

Tests, the simulator and `holdfast relay --once` call the very same steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from holdfast.errors import StoreError, TransportError
from holdfast.kernel.kernel import Kernel

FIRST_BACKOFF_S = 0.5


async def repeat(
    kernel: Kernel,
    name: str,
    step: Callable[[Kernel], Awaitable[int]],
    every_s: float,
    stop: asyncio.Event,
    channel: str | None = None,
    backoff_cap_s: float = 30.0,
) -> None:
    """Run `step` until `stop`: again at once while it finds work, else every `every_s` or when `channel` rings.

    A database or broker that is away costs a bounded, jittered wait and a log line, never the loop."""
    bell = kernel.store.bell(channel) if channel else None
    backoff_s = 0.0
    try:
        while not stop.is_set():
            try:
                did = await step(kernel)
                backoff_s = 0.0
            except (StoreError, TransportError) as error:
                backoff_s = min(backoff_cap_s, max(FIRST_BACKOFF_S, backoff_s * 2))
                kernel.watch.log("step.failed", step=name, error=str(error), wait_s=backoff_s)
                await pause(stop, backoff_s * (0.5 + kernel.dice.draw() / 2))
                continue
            if did == 0:
                await _idle(bell, stop, every_s)
    finally:
        if bell is not None:
            bell.close()


async def pause(stop: asyncio.Event, seconds: float) -> None:
    """Sleep, but not past the stop."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()


async def _idle(bell: object, stop: asyncio.Event, every_s: float) -> None:
    if bell is None:
        await pause(stop, every_s)
        return
    waiting = [
        asyncio.ensure_future(bell.wait(every_s)),  # type: ignore[attr-defined]
        asyncio.ensure_future(stop.wait()),
    ]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

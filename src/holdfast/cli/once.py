"""What `worker --once` and `relay --once` do: what is there now, and no more."""

from __future__ import annotations

import os

from holdfast.engines.run import prepare
from holdfast.engines.worker import Worker
from holdfast.kernel.app import App
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.reap import reap_once
from holdfast.kernel.relay import relay_once
from holdfast.main import close_systems, open_systems
from holdfast.settings import Settings


async def work_once(settings: Settings, system: list[str] | None, apps: list[App], concurrency: int) -> int:
    opened = await open_systems(settings, os.environ, system, apps)
    try:
        ended = 0
        for one in opened:
            await prepare(one.kernel)
            await reap_once(one.kernel)
            ended += await Worker(one.kernel, concurrency=concurrency).run_until_idle()
        return ended
    finally:
        await close_systems(opened)


async def relay_outbox_once(settings: Settings, system: list[str] | None, apps: list[App]) -> int:
    opened = await open_systems(settings, os.environ, system, apps)
    try:
        total = 0
        for one in opened:
            await prepare(one.kernel)
            await _declare_queues(one.kernel)
            while done := await relay_once(one.kernel):
                total += done
        return total
    finally:
        await close_systems(opened)


async def _declare_queues(kernel: Kernel) -> None:
    """A queue that is not there yet must not count against its messages."""
    queues = [queue for app in kernel.registry.apps for queue in app.queues]
    if queues and kernel.transport is not None:
        await kernel.transport.declare(queues)

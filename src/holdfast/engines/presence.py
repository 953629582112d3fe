"""Worker names, and what they tell: a worker of this machine whose process is gone need not be waited for."""

from __future__ import annotations

import os
import socket

from holdfast.kernel.kernel import Kernel
from holdfast.tables import workers


def name_here(suffix: str) -> str:
    """The machine, the process, and something of its own for each start."""
    return f"{socket.gethostname()}:{os.getpid()}:{suffix}"


async def expire_the_dead(kernel: Kernel) -> int:
    """End the leases of this machine's dead processes and forget them: after a crash and a restart, work goes on at
    once and not when the leases run out. Returns how many workers were dead. A wrong guess costs an attempt, never a
    promise: the fence keeps a worker without its lease from writing."""
    async with kernel.store.transaction() as tx:
        dead = [name for name in await workers.known(tx) if _is_dead(name)]
        for name in dead:
            await workers.expire(tx, name, kernel.now())
    if dead:
        kernel.watch.log("workers.dead", workers=dead)
    return len(dead)


def _is_dead(name: str) -> bool:
    host, _, rest = name.partition(":")
    process = rest.partition(":")[0]
    if host != socket.gethostname() or not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False  # it lives, and belongs to somebody else
    return False

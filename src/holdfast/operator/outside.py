"""What no look at the rows can tell: whether the database takes writes, and whether the broker can be reached."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

from holdfast.engines.run import SHOW
from holdfast.errors import (
    StoreBusy,
    StoreDown,
    StoreError,
    StoreForbidden,
    StoreFull,
    StoreReadOnly,
    StoreStandby,
    StoreStarting,
)
from holdfast.kernel.kernel import Kernel
from holdfast.system import OpenSystem
from holdfast.tables import workers

PROBE_EVERY_S = 2.0
"""Anybody may ask, and each answer costs a commit: what was found is good for so long."""
PROBE_LIMIT_S = 5.0
_away_since: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


async def reach_broker(kernel: Kernel) -> None:
    """Let the transport find out whether the broker is there, where an app of this kernel has queues at it. A process
    that has nothing to send would else call a broker well that is away."""
    if kernel.transport is not None and any(app.queues for app in kernel.registry.apps):
        await kernel.transport.reach()


async def write_trouble(system: OpenSystem) -> str | None:
    """What keeps the database from being written, in words; None if nothing does, and of what is only shown here:
    a replica is never written."""
    if system.is_replica or SHOW in system.kernel.duties:
        return None
    return await _probes.setdefault(system.kernel.store, _Probe()).trouble(system.kernel)


def note_away(kernel: Kernel) -> int | None:
    """Since when this process has found the database away, which no database can tell; None if it is the first time."""
    if kernel.store in _away_since:
        return _away_since[kernel.store]
    _away_since[kernel.store] = kernel.now()
    return None


def note_answer(kernel: Kernel) -> None:
    _away_since.pop(kernel.store, None)


@dataclass(slots=True)
class _Probe:
    """What the last trial write to a database came to."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    found: str | None = None
    looked_at: float | None = None

    async def trouble(self, kernel: Kernel) -> str | None:
        async with self.lock:
            if self.found is not None or self.looked_at is None or monotonic() - self.looked_at > PROBE_EVERY_S:
                self.found = await _write_trouble(kernel)
                self.looked_at = monotonic()
            return self.found


_probes: WeakKeyDictionary[Any, _Probe] = WeakKeyDictionary()


async def _write_trouble(kernel: Kernel) -> str | None:
    try:
        async with asyncio.timeout(PROBE_LIMIT_S), kernel.store.transaction() as tx:
            await workers.probe(tx, f"readyz:{socket.gethostname()}")
    except StoreBusy:
        return None  # somebody is writing
    except (StoreError, TimeoutError) as error:
        return in_words(error)
    return None


def in_words(error: StoreError | TimeoutError) -> str:
    """What is the matter with a database, for people."""
    return next(words for kind, words in _WORDS.items() if isinstance(error, kind))


_WORDS: dict[type[Exception], str] = {
    StoreStandby: "the database is a standby: it takes no writes until it is promoted",
    StoreStarting: "the database starts, or recovers from a crash",
    StoreReadOnly: "the database is read only",
    StoreFull: "the disk of the database is full (disk full)",
    StoreForbidden: "the role of the connection may not write to the database (permission denied)",
    StoreDown: "the database does not answer",
    TimeoutError: "the database does not answer",
    StoreError: "the database refuses a write that it should take",
}
"""The finer kinds before those that they are kinds of."""

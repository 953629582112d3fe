"""Is it alive, and can it serve? For load balancers and people; says nothing that is secret."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Request

from holdfast.core.redact import redact_text
from holdfast.engines.run import BROKER, CONSUME, RELAY, SHOW
from holdfast.errors import SchemaMismatch, StoreBusy, StoreError, StoreFull, StoreReadOnly, StoreStandby
from holdfast.http.answers.acts import Alive
from holdfast.http.answers.documented import documented
from holdfast.http.answers.service import Ready
from holdfast.http.problem import Problem
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.loop import AWAITED, RUNNING
from holdfast.kernel.upkeep.schema import check_schema
from holdfast.system import OpenSystem
from holdfast.tables import workers

PROBE_EVERY_S = 2.0
"""Anybody may ask, and each answer costs a commit: what was found is good for so long."""
PROBE_LIMIT_S = 5.0
NEEDED = (BROKER, RELAY, CONSUME)
"""The duties that those who wait for an answer depend on: without them nothing that is accepted goes on."""

router = APIRouter(tags=["health"])


@router.get("/healthz", response_model=documented(Alive))
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz", response_model=documented(Ready))
async def readyz(request: Request) -> dict[str, Any]:
    """Every database takes a write and has a schema this code works with, and messages are sent and received; else 503
    NOT_READY, with the reason by system. Of databases that are only shown, one is enough. `duties` says what this
    process does, and what each duty waits for."""
    opened: tuple[OpenSystem, ...] = request.app.state.systems
    states = {one.name: await readiness(one) for one in opened}
    shown = [one.name for one in opened if SHOW in one.kernel.duties]
    is_ready = all(state == "ready" for name, state in states.items() if name not in shown)
    is_ready = is_ready and (not shown or any(states[name] == "ready" for name in shown))
    duties = {one.name: duties_of(one.kernel) for one in opened if one.kernel.duties}
    about = {"systems": states, **({"duties": duties} if duties else {})}
    if not is_ready:
        raise Problem(503, "NOT_READY", "Not every system is ready.", headers={"Retry-After": "5"}, **about)
    return {"status": "ready", **about}


async def readiness(one: OpenSystem) -> str:
    """`ready`, or in a few words what is missing."""
    if one.is_awaited:
        return AWAITED
    trouble = await _schema_trouble(one.kernel)
    if trouble is None and SHOW not in one.kernel.duties:
        trouble = await _probe_of(one.kernel).trouble(one.kernel)
    if trouble is not None:
        return trouble
    waiting = [f"{name}: {state}" for name, state in duties_of(one.kernel).items() if _is_missed(name, state)]
    return "; ".join(waiting) or "ready"


def duties_of(kernel: Kernel) -> dict[str, str]:
    """What this process does for a system. A duty that needs the broker waits with it, whatever it did last, and one
    that consumes waits with its queue."""
    return {name: redact_text(_waits_for(kernel, name) or state) for name, state in kernel.duties.items()}


def _waits_for(kernel: Kernel, duty: str) -> str | None:
    if kernel.transport is None or not _is_needed(duty):
        return None
    away = kernel.transport.trouble() or kernel.transport.stalled().get(duty.removeprefix(f"{CONSUME} "))
    return None if away is None else f"waits for the broker: {away}"


def _is_needed(name: str) -> bool:
    return name.partition(" ")[0] in NEEDED


def _is_missed(name: str, state: str) -> bool:
    return _is_needed(name) and state != RUNNING


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


def _probe_of(kernel: Kernel) -> _Probe:
    return _probes.setdefault(kernel.store, _Probe())


async def _write_trouble(kernel: Kernel) -> str | None:
    """What keeps the database from being written, in words; None if nothing does."""
    try:
        async with asyncio.timeout(PROBE_LIMIT_S), kernel.store.transaction() as tx:
            await workers.probe(tx, f"readyz:{socket.gethostname()}")
    except StoreBusy:
        return None  # somebody is writing
    except (StoreError, TimeoutError) as error:
        return _in_words(error)
    return None


def _in_words(error: StoreError | TimeoutError) -> str:
    if isinstance(error, StoreStandby):
        return "the database is a standby: it takes no writes until it is promoted"
    if isinstance(error, StoreReadOnly):
        return "the database is read only"
    if isinstance(error, StoreFull):
        return "the disk of the database is full (disk full)"
    return "the database does not answer"


async def _schema_trouble(kernel: Kernel) -> str | None:
    try:
        async with asyncio.timeout(PROBE_LIMIT_S):
            await check_schema(kernel)
    except SchemaMismatch as error:
        return str(error)
    except (StoreError, TimeoutError) as error:
        return _in_words(error)
    return None

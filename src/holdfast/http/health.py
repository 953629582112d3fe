"""Is it alive, and can it serve? For load balancers and people; says nothing that is secret."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request

from holdfast.core.redact import redact_text
from holdfast.engines.run import BROKER, CONSUME, RELAY, SHOW
from holdfast.errors import SchemaMismatch, StoreError
from holdfast.http.answers.acts import Alive
from holdfast.http.answers.documented import documented
from holdfast.http.answers.service import Ready
from holdfast.http.problem import Problem
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.loop import AWAITED, RUNNING
from holdfast.kernel.upkeep.schema import check_schema
from holdfast.operator.outside import PROBE_LIMIT_S, in_words, write_trouble
from holdfast.system import OpenSystem

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
    if trouble is None:
        trouble = await write_trouble(one)
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
    return None if away is None else f"waits for the broker: {away.rstrip('.')}"


def _is_needed(name: str) -> bool:
    return name.partition(" ")[0] in NEEDED


def _is_missed(name: str, state: str) -> bool:
    return _is_needed(name) and state != RUNNING


async def _schema_trouble(kernel: Kernel) -> str | None:
    try:
        async with asyncio.timeout(PROBE_LIMIT_S):
            await check_schema(kernel)
    except SchemaMismatch as error:
        return str(error)
    except (StoreError, TimeoutError) as error:
        return in_words(error)
    return None

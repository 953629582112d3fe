"""Each system at a glance, with what asks for a person; and a mark that differs whenever something has happened."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from typing import Any

from holdfast.errors import StoreError
from holdfast.operator.attention import AttentionNotice, Severity, shape_notice, what_asks
from holdfast.operator.desk import Desk
from holdfast.operator.outside import note_answer, note_away, reach_broker, write_trouble
from holdfast.operator.shape import shape_row
from holdfast.operator.snapshot import Snapshot, snapshot
from holdfast.stores.seam import Tx
from holdfast.system import OpenSystem
from holdfast.tables import depth, incidents, ops

HOUR_MS = 3_600_000
LOOK_LIMIT_S = 8.0
"""A database that takes longer to say how it is does not answer; Prometheus gives a scrape ten seconds."""


async def show_overview(desk: Desk) -> dict[str, Any]:
    """Each system at a glance: what asks for a person, depth, age, lag, dead letters, breakers, workers. A system whose
    database does not answer says that, and hides nobody else's."""
    return {"items": await asyncio.gather(*(_glance(system) for system in (*desk.systems, *desk.awaited)))}


async def look_at(system: OpenSystem) -> tuple[Snapshot | None, list[AttentionNotice]]:
    """How it is, and what asks for a person; None while the database does not answer."""
    view = await _read_snapshot(system)
    if view is None:
        return None, what_asks(None, note_away(system.kernel))
    note_answer(system.kernel)
    return view, what_asks(view)


async def _read_snapshot(system: OpenSystem) -> Snapshot | None:
    """With what lies outside of the rows. Whoever looks may have no longer than a scrape has."""
    if system.is_awaited:
        return None
    try:
        async with asyncio.timeout(LOOK_LIMIT_S):
            await reach_broker(system.kernel)
            return replace(await snapshot(system.kernel), write_trouble=await write_trouble(system))
    except (StoreError, TimeoutError):
        return None


async def _glance(system: OpenSystem) -> dict[str, Any]:
    view, notices = await look_at(system)
    about = {
        "system": system.name,
        "title": system.system.title,
        "runs_jobs": bool(system.kernel.registry.kinds),
        "light": light_of(notices),
        "asks": [shape_notice(notice) for notice in notices],
    }
    return about if view is None else about | await _numbers(system, view)


def light_of(notices: list[AttentionNotice]) -> str:
    """`red` where somebody should be awake, `yellow` where something waits for a person, else `green`."""
    if any(notice.severity is Severity.PAGE for notice in notices):
        return "red"
    return "yellow" if notices else "green"


async def _numbers(system: OpenSystem, view: Snapshot) -> dict[str, Any]:
    due = [lane.oldest_age_s for lane in view.lanes if lane.state == "queued"]
    held = [lane.oldest_age_s for lane in view.lanes if lane.state == "parked"]
    async with system.kernel.store.reading() as tx:
        ended = await depth.finished_since(tx, view.now - HOUR_MS)
        going_on = await incidents.live(tx, view.now)
    return {
        "lanes": [asdict(lane) for lane in view.lanes],
        "oldest_age_s": max(due, default=0.0),
        "oldest_held_age_s": max(held, default=0.0),
        "finished_last_hour": [shape_row(row) for row in ended],
        "outbox_pending": view.outbox_pending,
        "outbox_lag_s": view.outbox_lag_s,
        "incidents": sum(incident.state == "open" for incident in going_on),
        "dead_letters": view.dead_letters,
        "dead_letters_open": view.dead_letters_open,
        "dead_letters_quiet": view.dead_letters_quiet,
        "breakers_not_closed": [breaker.name for breaker in view.breakers if breaker.state.gate != "closed"],
        "workers": view.workers_alive,
        "undeclared": [waiting._asdict() for waiting in view.undeclared],
    }


async def read_mark(system: OpenSystem, tx: Tx | None = None) -> tuple[int | str | None, ...]:
    """A value that differs whenever something has happened; read in the caller's transaction, if it has one."""
    if tx is not None:
        return await ops.mark(tx)
    async with system.kernel.store.reading() as own:
        return await ops.mark(own)

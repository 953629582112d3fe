"""Schedules and answers: what an operator changes while all is running."""

from __future__ import annotations

from typing import Any

from holdfast.errors import NotFound, SystemAmbiguous, UnknownKind
from holdfast.kernel.compose.waiting import answer
from holdfast.kernel.questions.explain import iso
from holdfast.kernel.upkeep.schedule import add_schedule as write_schedule
from holdfast.kernel.upkeep.schedule import list_schedules, pause_schedule, remove_schedule, run_schedule, schedule_runs
from holdfast.operator.desk import Desk
from holdfast.operator.shape import shape_row
from holdfast.system import OpenSystem


async def add_schedule(
    desk: Desk,
    name: str,
    cron: str,
    kind: str,
    input: str,
    *,
    actor: str,
    timezone: str = "UTC",
    jitter_s: float = 0.0,
    overlap: str = "allow",
) -> dict[str, Any]:
    """Add a schedule where its kind of job is declared, or change one that was added."""
    known = [one for system in desk.systems for one in system.kernel.registry.kinds]
    for system in desk.systems:
        if kind in system.kernel.registry.kinds:
            next_at = await write_schedule(
                system.kernel,
                name,
                cron,
                kind,
                input,
                actor=actor,
                timezone=timezone,
                jitter_s=jitter_s,
                overlap=overlap,
            )
            return {"system": system.name, "name": name, "next_at": iso(next_at)}
    raise UnknownKind(kind, known)


async def set_paused(desk: Desk, name: str, *, paused: bool, actor: str) -> dict[str, Any]:
    """Pause a schedule, or let it go on."""
    system = await _find(desk, name)
    await pause_schedule(system.kernel, name, paused=paused, actor=actor)
    return {"system": system.name, "name": name, "paused": paused}


async def run_schedule_now(desk: Desk, name: str, *, actor: str) -> dict[str, Any]:
    """Enqueue what a schedule would, now; its ticks stay."""
    system = await _find(desk, name)
    return {"system": system.name, "name": name, "job_id": await run_schedule(system.kernel, name, actor=actor)}


async def list_runs(desk: Desk, name: str, limit: int = 50) -> dict[str, Any]:
    """The jobs that a schedule has enqueued, the newest first."""
    system = await _find(desk, name)
    rows = await schedule_runs(system.kernel, name, limit)
    return {"items": [{"system": system.name, **shape_row(row)} for row in rows]}


async def drop_schedule(desk: Desk, name: str, *, actor: str) -> dict[str, Any]:
    """Remove a schedule that was added."""
    system = await _find(desk, name)
    await remove_schedule(system.kernel, name, actor=actor)
    return {"system": system.name, "name": name}


async def _find(desk: Desk, name: str) -> OpenSystem:
    for system in desk.systems:
        if any(item["name"] == name for item in await list_schedules(system.kernel)):
            return system
    raise NotFound(f"There is no schedule '{name}'.")


async def answer_wait(desk: Desk, key: str, body: str) -> dict[str, Any]:
    """Answer what a job waits for, or will wait for."""
    if len(desk.systems) > 1:
        raise SystemAmbiguous("jobs that may wait for it", [system.name for system in desk.systems])
    (system,) = desk.systems
    return {"system": system.name, "key": key, "delivered": await answer(system.kernel, key, body)}

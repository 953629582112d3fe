"""Pauses at the desk: what is paused, by whom and why; and the acts."""

from __future__ import annotations

from typing import Any

from holdfast.core.control import Sort
from holdfast.errors import NotFound, SystemAmbiguous
from holdfast.kernel.hands.pausing import set_paused
from holdfast.operator.desk import Desk
from holdfast.operator.shape import shape_row
from holdfast.operator.snapshot import snapshot
from holdfast.system import OpenSystem


async def list_pauses(desk: Desk) -> dict[str, Any]:
    """Every kind and queue of the loaded systems, the paused ones with who, why, since when, and how many jobs wait."""
    items: list[dict[str, Any]] = []
    for system in desk.systems:
        paused = {(pause.sort, pause.name): (pause, jobs) for pause, jobs in (await snapshot(system.kernel)).pauses}
        registry = system.kernel.registry
        known: list[tuple[Sort, str]] = [("queue", name) for name in registry.queues]
        known += [("kind", name) for name in sorted(registry.kinds)]
        for sort, name in known:
            about: dict[str, Any] = {"is_paused": False, "since": None, "actor": None, "reason": None, "jobs": 0}
            if (sort, name) in paused:
                pause, jobs = paused[sort, name]
                about = {**shape_row(pause._asdict()), "jobs": jobs}
            items.append({"system": system.name, "sort": sort, "name": name, **about})
    return {"items": items}


async def set_pause(
    desk: Desk, sort: Sort, name: str, *, paused: bool, actor: str, reason: str = "by hand"
) -> dict[str, Any]:
    """Pause a kind or a queue, or let it go on."""
    system = _find(desk, sort, name)
    pause = await set_paused(system.kernel, sort, name, paused=paused, actor=actor, reason=reason)
    return {"system": system.name, **shape_row(pause._asdict())}


def _find(desk: Desk, sort: Sort, name: str) -> OpenSystem:
    having = [each for each in desk.systems if name in _names(each, sort)]
    if not having:
        known = sorted({known for each in desk.systems for known in _names(each, sort)})
        raise NotFound(f"No system here has a {sort} named '{name}'; known: {', '.join(known)}.")
    if len(having) > 1:
        raise SystemAmbiguous(f"a {sort} named '{name}'", [each.name for each in having])
    return having[0]


def _names(system: OpenSystem, sort: Sort) -> list[str]:
    return list(system.kernel.registry.kinds if sort == "kind" else system.kernel.registry.queues)

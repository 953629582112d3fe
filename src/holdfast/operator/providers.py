"""Providers at the desk: their breakers, how they changed, and a hand on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.kernel.hold import force
from holdfast.kernel.questions.explain import iso
from holdfast.operator.desk import Desk
from holdfast.operator.snapshot import BreakerView, snapshot
from holdfast.stores.seam import Tx
from holdfast.system import OpenSystem
from holdfast.tables import providers
from holdfast.tables.providers import GateMove


async def list_breakers(desk: Desk) -> dict[str, Any]:
    """Every provider's breaker: its gate, why, until when, and how many jobs wait for it."""
    items: list[dict[str, Any]] = []
    for system in desk.systems:
        view = await snapshot(system.kernel)
        items += [_shape_breaker(system, breaker, view.now) for breaker in view.breakers]
    return {"items": items}


def _shape_breaker(system: OpenSystem, view: BreakerView, now: int) -> dict[str, Any]:
    declared = system.kernel.registry.providers.get(view.name)
    policy = declared.breaker if declared is not None else None
    state = view.state
    return {
        "system": system.name,
        "name": view.name,
        "gate": state.gate,
        "reason": state.reason,
        "forced": state.forced,
        "opened_at": iso(state.opened_at) if state.opened_at else None,
        "open_until": iso(state.open_until) if state.open_until else None,
        "open_s": view.open_s(now),
        "calls_in_window": len(state.window),
        "failures_in_window": state.window.count("1"),
        "mode": policy.mode if policy else None,
        "parked": view.parked,
        "not_before": iso(view.not_before) if view.not_before else None,
    }


async def list_gate_changes(desk: Desk, name: str, limit: int) -> dict[str, Any]:
    """When a breaker's gate changed, and why; the newest first."""

    async def read(tx: Tx) -> Sequence[GateMove]:
        return await providers.history(tx, name, limit)

    return {"items": await Desk([desk.find_provider(name)]).read_all(read)}


async def force_breaker(desk: Desk, name: str, *, open: bool, actor: str, reason: str) -> dict[str, Any]:
    """Stop all calls to a provider until a person closes its breaker, or let them through again."""
    system = desk.find_provider(name)
    await force(system.kernel, name, open=open, actor=actor, reason=reason)
    return {"system": system.name, "name": name, "gate": "open" if open else "closed", "reason": reason}

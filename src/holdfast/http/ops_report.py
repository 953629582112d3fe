"""The operator's reports: what providers cost, and which workers are alive."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from holdfast.http.ops_reach import SystemName, shaped, systems_of
from holdfast.kernel.deploy import WORKER_FRESH_MS
from holdfast.kernel.explain import iso
from holdfast.kernel.spending import DAY_MS, spending
from holdfast.system import OpenSystem
from holdfast.tables import schedules, workers

router = APIRouter()
Days = Annotated[int, Query(ge=1, le=3660)]


@router.get("/costs")
async def costs(request: Request, days: Days = 7, system: SystemName = None) -> dict[str, Any]:
    """What the calls to providers cost in the last days, today included: by day, provider and kind of job, in
    millionths of a currency unit."""
    items: list[dict[str, Any]] = []
    since = 0
    for one in systems_of(request, system):
        since = (one.kernel.now() // DAY_MS - days + 1) * DAY_MS
        items += [{"system": one.name, **row} for row in await spending(one.kernel, since)]
    items.sort(key=lambda item: str(item["day"]), reverse=True)
    total = sum(item["cost_micros"] for item in items)
    return {"since": iso(since), "items": items, "total_cost_micros": total}


@router.get("/workers")
async def list_workers(request: Request, system: SystemName = None) -> dict[str, Any]:
    """Workers by their last report; one that was silent for long is not `alive`."""
    items: list[dict[str, Any]] = []
    for one in systems_of(request, system):
        items += await _workers(one)
    return {"items": items}


async def _workers(one: OpenSystem) -> list[dict[str, Any]]:
    oldest = one.kernel.now() - WORKER_FRESH_MS
    async with one.kernel.store.reading() as tx:
        rows = await workers.every(tx)
    return [{"system": one.name, **shaped(row), "alive": row["seen_at"] >= oldest} for row in rows]


@router.get("/schedules")
async def list_schedules(request: Request, system: SystemName = None) -> dict[str, Any]:
    """Cron schedules and when each runs next."""
    items: list[dict[str, Any]] = []
    for one in systems_of(request, system):
        async with one.kernel.store.reading() as tx:
            items += [{"system": one.name, **shaped(row)} for row in await schedules.every(tx)]
    return {"items": items}

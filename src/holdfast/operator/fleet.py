"""The running of it all, at the desk: workers, schedules, costs, and who did what."""

from __future__ import annotations

from typing import Any

from holdfast.kernel.questions.deploy import WORKER_FRESH_MS, stranded
from holdfast.kernel.questions.explain import iso
from holdfast.kernel.upkeep.schedule import list_schedules as read_schedules
from holdfast.operator.desk import Desk
from holdfast.operator.page import ListPage, by_sequence, fetch_page
from holdfast.operator.shape import shape_row
from holdfast.operator.spending import DAY_MS, spending
from holdfast.tables import ops, workers


async def list_workers(desk: Desk) -> dict[str, Any]:
    """Workers by their last report; one that was silent for long is not `alive`."""
    items: list[dict[str, Any]] = []
    for system in desk.systems:
        oldest = system.kernel.now() - WORKER_FRESH_MS
        async with system.kernel.store.reading() as tx:
            rows = await workers.every(tx)
        items += [{"system": system.name, **shape_row(row), "alive": row["seen_at"] >= oldest} for row in rows]
    return {"items": items}


async def list_stranded(desk: Desk) -> list[dict[str, Any]]:
    """Groups of jobs that have not ended and that the loaded code could not run, each with the reason."""
    groups: list[dict[str, Any]] = []
    for system in desk.systems:
        groups += [{"system": system.name, **group._asdict()} for group in await stranded(system.kernel)]
    return groups


async def list_schedules(desk: Desk) -> dict[str, Any]:
    """Cron schedules: what each enqueues, when it last did, and when it does next."""
    items: list[dict[str, Any]] = []
    for system in desk.systems:
        items += [{"system": system.name, **shape_row(row)} for row in await read_schedules(system.kernel)]
    return {"items": items}


async def sum_costs(desk: Desk, days: int) -> dict[str, Any]:
    """What the calls to providers cost in the last days, today included: by day, provider and kind of job, in
    millionths of a currency unit."""
    items: list[dict[str, Any]] = []
    since = 0
    for system in desk.systems:
        since = (system.kernel.now() // DAY_MS - days + 1) * DAY_MS
        items += [{"system": system.name, **row} for row in await spending(system.kernel, since)]
    items.sort(key=lambda item: str(item["day"]), reverse=True)
    total = sum(item["cost_micros"] for item in items)
    return {"since": iso(since), "items": items, "total_cost_micros": total}


async def list_actions(
    desk: Desk, page: ListPage, actor: str | None = None, subject: str | None = None, people: bool = False
) -> dict[str, Any]:
    """Who did what, the newest first: every act of a person; with `people`, without the kernel's
    own lines."""
    return await fetch_page(desk, page, by_sequence("at"), ops.audit_page, actor=actor, subject=subject, people=people)

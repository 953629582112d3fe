"""The running of it all, at the desk: workers, schedules, costs, and who did what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.errors import NotAllowed, NotFound
from holdfast.kernel.questions.deploy import stranded
from holdfast.kernel.questions.explain import iso
from holdfast.kernel.upkeep.schedule import list_schedules as read_schedules
from holdfast.operator.desk import Desk
from holdfast.operator.page import ListPage, by_sequence, fetch_page
from holdfast.operator.shape import shape_row
from holdfast.operator.spending import DAY_MS, spending
from holdfast.system import OpenSystem
from holdfast.tables import audit, ops, workers
from holdfast.tables.workers import SeenWorker

RUNNING_SHOWN = 20


async def list_workers(desk: Desk) -> dict[str, Any]:
    """Workers by their last report; one that was silent for long is not `alive`."""
    items: list[dict[str, Any]] = []
    for system in desk.systems:
        oldest = system.kernel.now() - workers.FRESH_MS
        async with system.kernel.store.reading() as tx:
            for row in await workers.read_every(tx):
                about = {
                    "alive": row.seen_at >= oldest,
                    "state": _worker_state(row, oldest),
                    "host": host_of(row.name),
                }
                running = await workers.running(tx, row.name, system.kernel.now(), RUNNING_SHOWN)
                items.append(
                    {"system": system.name, **shape_row(row), **about, "jobs": [shape_row(job) for job in running]}
                )
    return {"items": items}


def _worker_state(row: SeenWorker, oldest: int) -> str:
    """`silent` where it has not reported lately; `draining` while it ends what it has, `drained` after that."""
    if row.seen_at < oldest:
        return "silent"
    if row.drain_at is None:
        return "running"
    return "drained" if row.in_flight == 0 and row.seen_at >= row.drain_at else "draining"


def host_of(name: str) -> str:
    """The machine that a worker's name begins with."""
    return name.partition(":")[0]


async def drain_worker(desk: Desk, name: str, *, drain: bool, actor: str) -> dict[str, Any]:
    """Ask a worker to end what it has and to take nothing more, until it is asked to take again. The beginning of its
    name is enough where it is the only one."""
    having = [
        (system, row.name)
        for system in desk.systems
        for row in await _workers_of(system)
        if row.name == name or row.name.startswith(name) or row.name.endswith(f":{name}")
    ]
    exact = [each for each in having if each[1] == name] or having
    if len(exact) > 1:
        raise NotFound(f"Several workers fit '{name}': {', '.join(each for _, each in exact[:3])}; type more of it.")
    if not exact:
        raise NotFound(f"There is no worker '{name}'.")
    (system, whole), kernel = exact[0], exact[0][0].kernel
    async with kernel.store.transaction() as tx:
        now = kernel.now()
        if not await workers.drain(tx, whole, now if drain else None):
            raise NotAllowed(f"Worker {whole} does not read such wishes: it is Celery's, or of an older release.")
        await audit.write(tx, actor, "worker.drained" if drain else "worker.undrained", f"worker:{whole}", None, now)
        await tx.notify("company")
    return {"system": system.name, "name": whole, "draining": drain}


async def _workers_of(system: OpenSystem) -> Sequence[SeenWorker]:
    async with system.kernel.store.reading() as tx:
        return await workers.read_every(tx)


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

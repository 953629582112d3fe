"""Enqueues by the clock. Each tick is enqueued exactly once, however many workers run: the tick is the job's key."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cronsim import CronSim, CronSimError

from holdfast.errors import BadDeclaration
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.submit import prepare, submit_in
from holdfast.tables import schedules


def check_cron(cron: str) -> None:
    try:
        next_tick(cron, 0)
    except (CronSimError, StopIteration) as error:
        raise BadDeclaration(f"The schedule '{cron}' is not five valid cron fields: {error}.") from None


def next_tick(cron: str, after_ms: int) -> int:
    """The first tick after a moment, in milliseconds since the epoch (UTC)."""
    ticks = CronSim(cron, datetime.fromtimestamp(after_ms / 1_000, UTC))
    return int(next(ticks).timestamp() * 1_000)


async def announce_schedules(kernel: Kernel) -> None:
    """Write what the loaded apps declare; a changed schedule takes effect at once."""
    now = kernel.now()
    async with kernel.store.transaction() as tx:
        for app in kernel.registry.apps:
            for one in app.schedules:
                kind = one.job.__holdfast__
                payload = kind.dump_input(one.input)
                await schedules.ensure(tx, one.name, one.cron, kind.name, payload, next_tick(one.cron, now), now)


async def list_schedules(kernel: Kernel) -> list[dict[str, Any]]:
    """What is scheduled, and what the loaded apps declare and no worker has announced yet. Only reads."""
    async with kernel.store.reading() as tx:
        found = {row["name"]: dict(row) for row in await schedules.every(tx)}
    for app in kernel.registry.apps:
        for one in app.schedules:
            kind, next_at = one.job.__holdfast__, next_tick(one.cron, kernel.now())
            declared = {"cron": one.cron, "kind": kind.name, "payload": kind.dump_input(one.input), "next_at": next_at}
            found.setdefault(one.name, {"name": one.name, **declared, "last_at": None})
    return [found[name] for name in sorted(found)]


async def schedule_once(kernel: Kernel) -> int:
    """Enqueue what is due. A missed stretch (all workers down) is caught up with one job, not with many."""
    async with kernel.store.transaction() as tx:
        now = kernel.now()
        due = [row for row in await schedules.due(tx, now) if row["kind"] in kernel.registry.kinds]
        for row in due:
            kind = kernel.registry.kind(row["kind"])
            key = f"schedule:{row['name']}:{row['next_at']}"
            order = prepare(kind, kind.load_input(row["payload"]), job_id=kernel.new_id(), now=now, key=key)
            await submit_in(tx, [order], now, kernel.watch)
            await schedules.advance(tx, row["name"], row["next_at"], next_tick(row["cron"], now), now)
    return len(due)

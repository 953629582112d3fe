"""Enqueues by the clock. Each tick is enqueued exactly once, however many workers run: the tick is the job's key.

Schedules are declared by apps, or added while all is running; a person may pause either.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from holdfast.errors import BadDeclaration, HoldfastError, InvalidInput, NotFound
from holdfast.kernel.app import Schedule
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.submit import JobToEnqueue, prepare, submit_in
from holdfast.tables import audit, schedules
from holdfast.tables.schedules import DueSchedule, NewSchedule, StoredSchedule, TickJob

Overlap = Literal["allow", "skip"]
CHANNEL = "schedules"
LOOK_S = 15.0
"""A change that was not heard of is seen after so long."""


def check_cron(cron: str, timezone: str = "UTC", jitter_s: float = 0.0, overlap: str = "allow") -> None:
    """Refuse what no clock can follow, in one sentence."""
    try:
        ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadDeclaration(f"There is no time zone '{timezone}'; write one such as Europe/Berlin.") from None
    try:
        if len(cron.split()) != 5:  # with six, the first one would be seconds
            raise CronSimError("Wrong number of fields")
        next_tick(cron, 0, timezone)
    except (CronSimError, StopIteration) as error:
        raise BadDeclaration(f"The schedule '{cron}' is not five valid cron fields: {error}.") from None
    if not isinstance(jitter_s, int | float) or not 0 <= jitter_s <= 86_400:
        raise BadDeclaration(f"The jitter_s of {jitter_s!r} must be a number of seconds from 0 to 86400.")
    if overlap not in ("allow", "skip"):
        raise BadDeclaration(f"The overlap of '{overlap}' must be allow or skip.")


def next_tick(cron: str, after_ms: int, timezone: str = "UTC") -> int:
    """The first tick after a moment, in milliseconds since the epoch; the fields are read in the time zone."""
    ticks = CronSim(cron, datetime.fromtimestamp(after_ms / 1_000, ZoneInfo(timezone)))
    return int(next(ticks).timestamp() * 1_000)


async def announce_schedules(kernel: Kernel) -> None:
    """Write what the loaded apps declare; a changed schedule takes effect at once."""
    now, declared = kernel.now(), _declared(kernel).values()
    async with kernel.store.transaction() as tx:
        for schedule in declared:
            await schedules.ensure(tx, _row(schedule), next_tick(schedule.cron, now, schedule.timezone), now)
        if declared:
            await tx.notify(CHANNEL)


def _row(schedule: Schedule) -> NewSchedule:
    kind = schedule.job.__holdfast__
    payload, jitter_ms = kind.dump_input(schedule.input), int(schedule.jitter_s * 1_000)
    return NewSchedule(
        schedule.name, schedule.cron, kind.name, payload, schedule.timezone, jitter_ms, schedule.overlap, 0
    )


async def list_schedules(kernel: Kernel) -> list[dict[str, Any]]:
    """What is scheduled, and what the loaded apps declare and no worker has announced yet. Only reads."""
    async with kernel.store.reading() as tx:
        rows = {row.name: row._asdict() for row in await schedules.read_every(tx)}
    for app in kernel.registry.apps:
        for schedule in app.schedules:
            next_at = next_tick(schedule.cron, kernel.now(), schedule.timezone)
            rows.setdefault(
                schedule.name, {**_row(schedule)._asdict(), "next_at": next_at, "last_at": None, "paused": 0}
            )
    return [rows[name] for name in sorted(rows)]


async def add_schedule(
    kernel: Kernel,
    name: str,
    cron: str,
    kind: str,
    input: str,
    *,
    actor: str,
    timezone: str = "UTC",
    jitter_s: float = 0.0,
    overlap: str = "allow",
) -> int:
    """Add a schedule while all is running, its input as JSON, or change one that was added; when it is due next."""
    check_cron(cron, timezone, jitter_s, overlap)
    if name in _declared(kernel):
        raise InvalidInput(f"The schedule '{name}' is declared in the code; change it there.")
    declared = kernel.registry.kind(kind)
    try:
        payload = declared.dump_input(declared.load_input(json.dumps(json.loads(input))))
    except json.JSONDecodeError as error:
        raise InvalidInput(f"The input of '{name}' is no JSON: {error}.") from None
    now = kernel.now()
    next_at = next_tick(cron, now, timezone)
    row = NewSchedule(name, cron, kind, payload, timezone, int(jitter_s * 1_000), overlap, 1)
    async with kernel.store.transaction() as tx:
        await schedules.ensure(tx, row, next_at, now)
        await tx.notify(CHANNEL)
        await audit.write(tx, actor, "schedule.added", f"schedule:{name}", {"cron": cron, "kind": kind}, now)
    return next_at


async def pause_schedule(kernel: Kernel, name: str, *, paused: bool, actor: str) -> None:
    """Pause a schedule, or let it go on: what it missed meanwhile is not caught up."""
    now = kernel.now()
    async with kernel.store.transaction() as tx:
        known = {row.name: row for row in await schedules.read_every(tx)}
        if name not in known:
            raise NotFound(f"There is no schedule '{name}'.")
        next_at = None if paused else next_tick(known[name].cron, now, known[name].timezone)
        await schedules.pause(tx, name, paused, next_at, now)
        await tx.notify(CHANNEL)
        await audit.write(tx, actor, f"schedule.{'paused' if paused else 'resumed'}", f"schedule:{name}", None, now)


async def run_schedule(kernel: Kernel, name: str, *, actor: str) -> str:
    """Enqueue what a schedule would, now, whether or not it is paused; its ticks stay. Returns the job's id."""
    now = kernel.now()
    async with kernel.store.transaction() as tx:
        row = next((row for row in await schedules.read_every(tx) if row.name == name), None)
        if row is None:
            raise NotFound(f"There is no schedule '{name}'.")
        kind = kernel.registry.kind(row.kind)
        key = f"schedule:{name}:{now}:by hand"
        order = prepare(kind, _input(kernel, row), job_id=kernel.new_id(), now=now, key=key)
        await submit_in(tx, [order], now, kernel.watch)
        await audit.write(tx, actor, "schedule.run", f"schedule:{name}", {"job": order.id}, now)
    return order.id


async def schedule_runs(kernel: Kernel, name: str, limit: int) -> Sequence[TickJob]:
    """The jobs that a schedule has enqueued, the newest first."""
    async with kernel.store.reading() as tx:
        row = next((row for row in await schedules.read_every(tx) if row.name == name), None)
        if row is None:
            raise NotFound(f"There is no schedule '{name}'.")
        return await schedules.runs(tx, row.kind, f"schedule:{name}:", limit)


async def remove_schedule(kernel: Kernel, name: str, *, actor: str) -> None:
    """Remove a schedule that was added while all was running, or that the code names no more."""
    async with kernel.store.transaction() as tx:
        if name in _declared(kernel) or not await schedules.remove(tx, name):
            raise NotFound(f"There is no schedule '{name}' that was added by hand; one of the code is paused instead.")
        await audit.write(tx, actor, "schedule.removed", f"schedule:{name}", None, kernel.now())


async def schedule_once(kernel: Kernel) -> int:
    """Enqueue what is due. A missed stretch (all workers down) is caught up with one job, not with many. What another
    release wrote, and this code cannot enqueue, is left to that release."""
    async with kernel.store.reading() as tx:
        known = await schedules.upcoming(tx, kernel.registry.kinds, _declared(kernel))
    kernel.tick_at = known[0].next_at if known else None
    names = [each.name for each in known if each.next_at <= kernel.now()]
    if not names:
        return 0
    enqueued = 0
    async with kernel.store.transaction() as tx:
        now = kernel.now()
        locked = [await schedules.lock_due(tx, name, now) for name in names]
        for row in locked:
            if row is None or row.kind not in kernel.registry.kinds:
                continue
            duty = f"schedule '{row.name}'"
            try:
                order, next_at = _order(kernel, row, now), next_tick(row.cron, now, row.timezone)
            except (HoldfastError, ZoneInfoNotFoundError, CronSimError) as error:
                _say_once(kernel, duty, f"left to other code: {error}")
                continue
            kernel.duties.pop(duty, None)
            last = _key(row, row.last_at) if row.overlap == "skip" and row.last_at is not None else None
            skipped = last is not None and await schedules.is_live(tx, row.kind, last)
            if not skipped:
                await submit_in(tx, [order], now, kernel.watch)
            await schedules.advance(tx, row.name, row.next_at, next_at, now, ran=not skipped)
            enqueued += 1
    return enqueued


def until_tick_s(kernel: Kernel) -> float:
    """How long until the next look: at the next tick, as far as this process knows, and not later than `LOOK_S`."""
    wait_s = LOOK_S if kernel.tick_at is None else (kernel.tick_at - kernel.now()) / 1_000
    return min(LOOK_S, max(kernel.tuning.schedule_s, wait_s))


def _order(kernel: Kernel, row: DueSchedule, now: int) -> JobToEnqueue:
    kind = kernel.registry.kind(row.kind)
    delay_s = row.jitter_ms / 1_000 * kernel.dice.draw() if row.jitter_ms else 0.0
    key = _key(row, row.next_at)
    return prepare(kind, _input(kernel, row), job_id=kernel.new_id(), now=now, key=key, delay_s=delay_s)


def _input(kernel: Kernel, row: DueSchedule | StoredSchedule) -> Any:
    """What it says, or what this code says where another release has written what does not fit here."""
    try:
        return kernel.registry.kind(row.kind).load_unversioned(row.payload)
    except InvalidInput:
        own = _declared(kernel).get(row.name)
        if own is None or own.job.__holdfast__.name != row.kind:
            raise
        return own.input


def _declared(kernel: Kernel) -> dict[str, Schedule]:
    return {schedule.name: schedule for app in kernel.registry.apps for schedule in app.schedules}


def _say_once(kernel: Kernel, duty: str, state: str) -> None:
    if kernel.duties.get(duty) != state:
        kernel.duties[duty] = state
        kernel.watch.log("schedule.left", name=duty, error=state)


def _key(row: DueSchedule, tick: int) -> str:
    return f"schedule:{row.name}:{tick}"

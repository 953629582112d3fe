"""`holdfast check --connect`: reaches everything that is configured, and says of each in a line what it found."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import asdict, dataclass
from typing import NoReturn

import typer

from holdfast.cli.start import own_apps, run_to_end, settings_now
from holdfast.errors import SchemaMismatch, StoreError
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.questions.horizon import read_horizon
from holdfast.kernel.upkeep.schema import check_schema
from holdfast.main import close_systems, open_systems
from holdfast.settings import Settings
from holdfast.stores.examination import Examination
from holdfast.stores.seam import Store
from holdfast.system import OpenSystem
from holdfast.transports.addresses import split_addresses
from holdfast.transports.seam import Queue

HEARD_S = 5.0
CHANNEL = "check"
DEAF = "notifications do not arrive: workers poll"


@dataclass(frozen=True, slots=True)
class ConnectionCheck:
    """One thing that was reached for, and what came of it."""

    what: str
    place: str
    found: str
    ok: bool = True


def check_connect(system: list[str] | None, app: list[str] | None, as_json: bool) -> NoReturn:
    """Print a line for every database and broker; exit 1 if one of them is not as it must be."""
    lines = run_to_end(_look_at_all(settings_now(), system, app))
    if as_json:
        typer.echo(json.dumps({"connections": [asdict(line) for line in lines]}))
    for line in lines if not as_json else ():
        typer.echo(f"{line.what} {line.place}: {line.found}.", err=not line.ok)
    raise typer.Exit(0 if all(line.ok for line in lines) else 1)


async def _look_at_all(settings: Settings, names: list[str] | None, apps: list[str] | None) -> list[ConnectionCheck]:
    lines = await _databases(settings, names, apps, to_look=False)
    if settings.read_only_url is not None:
        lines += await _databases(settings, names, apps, to_look=True)
    if settings.rabbitmq_url is not None:
        opened = await open_systems(settings, os.environ, names, own_apps(apps))
        queues = [queue for one in opened for each in one.kernel.registry.apps for queue in each.queues]
        await close_systems(opened)
        for url in split_addresses(settings.rabbitmq_url):
            lines.append(await _broker(url, queues, settings.rabbitmq_queue_type))
    return lines


async def _databases(
    settings: Settings, names: list[str] | None, apps: list[str] | None, *, to_look: bool
) -> list[ConnectionCheck]:
    opened = await open_systems(settings, os.environ, names, own_apps(apps), to_look=to_look)
    try:
        by_store: dict[int, list[OpenSystem]] = {}
        for each in opened:
            by_store.setdefault(id(each.kernel.store), []).append(each)
        return [await _database([one.kernel for one in each], to_look) for each in by_store.values()]
    finally:
        await close_systems(opened)


async def _database(kernels: list[Kernel], to_look: bool) -> ConnectionCheck:
    store = kernels[0].store
    what = "replica" if to_look else "database"
    try:
        found = await store.examine()
        facts, problems = list(found.facts), list(found.problems)
        if not to_look and not found.is_writable:
            problems.append("it takes no writes")
        schema, fits = await _schema(kernels)
        facts.append(schema)
        problems += [] if fits else [schema]
        if not to_look and found.is_writable and not store.has_one_writer:
            facts.append("notifications arrive" if await _hears(store, found) else DEAF)
        facts += await _horizon(kernels[0]) if fits else []
    except StoreError as error:
        return ConnectionCheck(what, store.place(), str(error).rstrip("."), ok=False)
    unseen = [problem for problem in problems if problem not in facts]
    return ConnectionCheck(
        what, store.place(), ", ".join([*facts, *(problem.rstrip(".") for problem in unseen)]), not problems
    )


async def _schema(kernels: list[Kernel]) -> tuple[str, bool]:
    try:
        for kernel in kernels:
            await check_schema(kernel)
    except SchemaMismatch as error:
        return str(error).rstrip("."), False
    newest = max(step.version for step in kernels[0].migrations if step.namespace == "holdfast")
    return f"the schema fits (holdfast/{newest:03d})", True


async def _hears(store: Store, found: Examination) -> bool:
    """Ring once, and listen for it."""
    if not found.hears:
        return False
    listener = store.listen(CHANNEL)
    try:
        async with asyncio.timeout(HEARD_S):
            while not store.is_heard():
                await listener.wait(0.1)
        await listener.wait(0)
        async with store.transaction() as tx:
            await tx.notify(CHANNEL)
        return await listener.wait(HEARD_S)
    except TimeoutError:
        return False
    finally:
        listener.close()


async def _horizon(kernel: Kernel) -> list[str]:
    held = await read_horizon(kernel)
    if not held.what:
        return []
    return [f"old row versions are kept by {held.what} {held.name} (process {held.pid}), for {held.open_s:.0f} s"]


async def _broker(url: str, queues: list[Queue], queue_type: str) -> ConnectionCheck:
    from holdfast.transports.rabbitmq.examine import examine

    place, found, ok = await examine(url, queues, queue_type)
    return ConnectionCheck("broker", place, found, ok)

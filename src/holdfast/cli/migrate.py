"""The command that changes schemas. Every other command only looks whether they fit."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.start import AppPath, AsJson, SystemNames, own_apps, run_to_end, settings_now

if TYPE_CHECKING:
    from holdfast.kernel.kernel import Kernel


def migrate(
    system: SystemNames = None,
    app: AppPath = None,
    print_sql: Annotated[
        bool, typer.Option("--print", "--sql", help="Print the SQL of what is pending, and change nothing.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Say what is pending, and exit 1 if anything is.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring every database forward to what this version needs. Safe on a live database, and to repeat."""
    if print_sql:
        _print(_each(system, app, _script), as_json)
    elif check:
        todo = _each(system, app, _pending)
        _say(todo, "up to date", "pending: ", as_json)
        raise typer.Exit(1 if any(todo.values()) else 0)
    else:
        _say(_each(system, app, _migrate), "up to date", "", as_json)


def _each(system: list[str] | None, app: list[str] | None, ask: Callable[[Kernel], Awaitable[Any]]) -> dict[str, Any]:
    from holdfast.main import close_systems, open_systems

    async def go() -> dict[str, Any]:
        opened = await open_systems(settings_now(), os.environ, system, own_apps(app))
        try:
            return {one.name: await ask(one.kernel) for one in opened}
        finally:
            await close_systems(opened)

    return run_to_end(go())


async def _migrate(kernel: Kernel) -> list[str]:
    return await kernel.migrate(report=lambda sentence: typer.echo(sentence, err=True))


async def _pending(kernel: Kernel) -> list[str]:
    from holdfast.stores.migration import pending

    return [step.name for step in pending(kernel.migrations, await kernel.store.installed())]


async def _script(kernel: Kernel) -> str:
    from holdfast.stores.migration import Patience
    from holdfast.stores.script import script

    applied = await kernel.store.installed()
    patience = Patience(kernel.tuning.migrate_lock_s, kernel.tuning.migrate_wait_s)
    return script(kernel.migrations, applied, kernel.store.dialect, patience)


def _say(found: dict[str, list[str]], nothing: str, some: str, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(found))
        return
    for name, steps in found.items():
        typer.echo(f"{name}: {some + ', '.join(steps) if steps else nothing}")


def _print(scripts: dict[str, str], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(scripts))
        return
    for name, text in scripts.items():
        typer.echo(f"-- {name}: {'up to date' if not text else 'what is pending'}\n{text}", nl=False)

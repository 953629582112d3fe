"""Schedules on the command line: look, add, pause, resume, remove. They take effect at once, without a restart."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdfast.cli_reach import each, fail, say, show_rows
from holdfast.cli_start import ME, Actor, AppPath, AsJson, SystemNames, Watching
from holdfast.errors import NotFound, UnknownKind
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.schedule import add_schedule, list_schedules, pause_schedule, remove_schedule
from holdfast.system import OpenSystem

schedules_cli = typer.Typer(help="Cron schedules: see them, add, pause, resume and remove them.", no_args_is_help=True)
COLUMNS = ["name", "cron", "timezone", "kind", "last_at", "next_at", "overlap", "paused"]
Name = Annotated[str, typer.Argument(help="The schedule's name.")]


@schedules_cli.command("list")
def schedules_list(
    system: SystemNames = None, app: AppPath = None, watch: Watching = False, as_json: AsJson = False
) -> None:
    """Cron schedules: what each enqueues, when it last did, and when it does next."""

    async def go(one: OpenSystem) -> list[dict[str, Any]]:
        return await list_schedules(one.kernel)

    show_rows(lambda: each(system, app, go), COLUMNS, as_json, watch)


@schedules_cli.command("add")
def schedules_add(
    name: Name,
    cron: Annotated[str, typer.Argument(help="Five cron fields.")],
    kind: Annotated[str, typer.Argument(help="The kind of job to enqueue.")],
    input: Annotated[str, typer.Argument(help="Its input, as JSON.")],
    timezone: Annotated[str, typer.Option(help="In which the fields are read.")] = "UTC",
    jitter_s: Annotated[float, typer.Option("--jitter-sec", help="A tick is due up to this much later.")] = 0.0,
    overlap: Annotated[str, typer.Option(help="allow, or skip a tick while the job before has not ended.")] = "allow",
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """Add a schedule, or change one that was added."""

    async def go(one: OpenSystem) -> list[dict[str, Any]]:
        if kind not in one.kernel.registry.kinds:
            return []
        rules = {"timezone": timezone, "jitter_s": jitter_s, "overlap": overlap}
        next_at = await add_schedule(one.kernel, name, cron, kind, input, actor=actor, **rules)  # type: ignore[arg-type]
        return [{"name": name, "next_at": next_at}]

    if not each(system, app, go):
        fail(str(UnknownKind(kind, [])))
    say(f"The schedule '{name}' is there.", as_json, name=name)


@schedules_cli.command("pause")
def schedules_pause(
    name: Name, actor: Actor = ME, system: SystemNames = None, app: AppPath = None, as_json: AsJson = False
) -> None:
    """Enqueue nothing more by this schedule, until it is resumed."""
    _on_schedule(system, app, name, lambda kernel: pause_schedule(kernel, name, paused=True, actor=actor))
    say(f"The schedule '{name}' is paused.", as_json, name=name, paused=True)


@schedules_cli.command("resume")
def schedules_resume(
    name: Name, actor: Actor = ME, system: SystemNames = None, app: AppPath = None, as_json: AsJson = False
) -> None:
    """Let it go on with its next tick; what it missed is not caught up."""
    _on_schedule(system, app, name, lambda kernel: pause_schedule(kernel, name, paused=False, actor=actor))
    say(f"The schedule '{name}' goes on.", as_json, name=name, paused=False)


@schedules_cli.command("remove")
def schedules_remove(
    name: Name, actor: Actor = ME, system: SystemNames = None, app: AppPath = None, as_json: AsJson = False
) -> None:
    """Remove a schedule that was added; one of the code can only be paused."""
    _on_schedule(system, app, name, lambda kernel: remove_schedule(kernel, name, actor=actor))
    say(f"The schedule '{name}' is removed.", as_json, name=name)


def _on_schedule(system: SystemNames, app: AppPath, name: str, act: Any) -> None:
    async def go(one: OpenSystem) -> list[dict[str, Any]]:
        kernel: Kernel = one.kernel
        try:
            await act(kernel)
        except NotFound:
            return []
        return [{"name": name}]

    if not each(system, app, go):
        fail(f"There is no schedule '{name}' that this can be done to; see holdfast schedules list.")

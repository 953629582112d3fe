"""Schedules on the command line: look, add, pause, resume, remove. They take effect at once, without a restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from holdfast.cli.reach import act, carry_out, finite, look, show_items
from holdfast.cli.start import ME, Actor, AppPath, AsJson, Limit, SystemNames, Watching

schedules_cli = typer.Typer(help="Cron schedules: see them, add, pause, resume and remove them.", no_args_is_help=True)
COLUMNS = ["name", "cron", "timezone", "kind", "last_at", "next_at", "overlap", "paused"]
Name = Annotated[str, typer.Argument(help="The schedule's name.")]


@schedules_cli.command("list")
def schedules_list(
    system: SystemNames = None, app: AppPath = None, watch: Watching = False, as_json: AsJson = False
) -> None:
    """Cron schedules: what each enqueues, when it last did, and when it does next."""
    from holdfast.operator import fleet

    show_items(look(system, app), COLUMNS, as_json, watch, fleet.list_schedules)


@schedules_cli.command("add")
def schedules_add(
    name: Name,
    cron: Annotated[str, typer.Argument(help="Five cron fields.")],
    kind: Annotated[str, typer.Argument(help="The kind of job to enqueue.")],
    input: Annotated[str, typer.Argument(help="Its input, as JSON.")],
    timezone: Annotated[str, typer.Option(help="In which the fields are read.")] = "UTC",
    jitter_s: Annotated[
        float, typer.Option("--jitter-sec", help="A tick is due up to this much later.", callback=finite)
    ] = 0.0,
    overlap: Annotated[str, typer.Option(help="allow, or skip a tick while the job before has not ended.")] = "allow",
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """Add a schedule, or change one that was added."""
    from holdfast.operator import schedules

    carry_out(
        act(system, app),
        as_json,
        "The schedule '{name}' is due next at {next_at}.",
        schedules.add_schedule,
        name,
        cron,
        kind,
        input,
        actor=actor,
        timezone=timezone,
        jitter_s=jitter_s,
        overlap=overlap,
    )


def _set_paused(paused: bool, sentence: str) -> Callable[..., None]:
    def command(
        name: Name, actor: Actor = ME, system: SystemNames = None, app: AppPath = None, as_json: AsJson = False
    ) -> None:
        from holdfast.operator import schedules

        carry_out(act(system, app), as_json, sentence, schedules.set_paused, name, paused=paused, actor=actor)

    return command


schedules_cli.command("pause", help="Enqueue nothing more by this schedule, until it is resumed.")(
    _set_paused(True, "The schedule '{name}' is paused.")
)
schedules_cli.command("resume", help="Let it go on with its next tick; what it missed is not caught up.")(
    _set_paused(False, "The schedule '{name}' goes on.")
)


@schedules_cli.command("run")
def schedules_run(
    name: Name, actor: Actor = ME, system: SystemNames = None, app: AppPath = None, as_json: AsJson = False
) -> None:
    """Enqueue now what the schedule would; its ticks stay."""
    from holdfast.operator import schedules

    carry_out(act(system, app), as_json, "Job {job_id} is enqueued.", schedules.run_schedule_now, name, actor=actor)


@schedules_cli.command("runs")
def schedules_runs(
    name: Name, limit: Limit = 50, system: SystemNames = None, app: AppPath = None, as_json: AsJson = False
) -> None:
    """The jobs that the schedule has enqueued, the newest first."""
    from holdfast.operator import schedules

    columns = ["id", "state", "stage", "created_at", "finished_at", "error"]
    show_items(look(system, app), columns, as_json, False, schedules.list_runs, name, limit)


@schedules_cli.command("remove")
def schedules_remove(
    name: Name, actor: Actor = ME, system: SystemNames = None, app: AppPath = None, as_json: AsJson = False
) -> None:
    """Remove a schedule that was added, or that the code names no more; one of the code can only be paused."""
    from holdfast.operator import schedules

    carry_out(
        act(system, app), as_json, "The schedule '{name}' is removed.", schedules.drop_schedule, name, actor=actor
    )

"""Hands on what runs, on the command line: pauses, priorities, acts on many jobs, workers that are drained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from holdfast.cli.reach import act, at_desk, carry_out, fail, look, say, show_items
from holdfast.cli.start import ME, Actor, AppPath, AsJson, SystemNames, Watching
from holdfast.core.control import Action, Sort

pauses_cli = typer.Typer(help="Pause kinds and queues, and let them go on.", no_args_is_help=True)
workers_cli = typer.Typer(
    help="See workers; have one end what it has and take nothing more.", invoke_without_command=True
)
What = Annotated[Sort, typer.Argument(help="kind or queue")]
Name = Annotated[str, typer.Argument(help="Its name.")]
WorkerName = Annotated[str, typer.Argument(help="The worker's name, its beginning, or its last part.")]
Why = Annotated[str, typer.Option(help="Why; shown to people who ask.")]


@pauses_cli.command("list")
def pauses_list(
    system: SystemNames = None, app: AppPath = None, watch: Watching = False, as_json: AsJson = False
) -> None:
    """Every kind and queue: whether it is paused, by whom, why, and how many jobs wait for it."""
    from holdfast.operator import pauses

    columns = ["sort", "name", "is_paused", "jobs", "since", "actor", "reason"]
    show_items(look(system, app), columns, as_json, watch, pauses.list_pauses)


def _set_pause(paused: bool, sentence: str) -> Callable[..., None]:
    def command(
        sort: What,
        name: Name,
        reason: Why = "by hand",
        actor: Actor = ME,
        system: SystemNames = None,
        app: AppPath = None,
        as_json: AsJson = False,
    ) -> None:
        from holdfast.operator import pauses

        verb = pauses.set_pause
        carry_out(act(system, app), as_json, sentence, verb, sort, name, paused=paused, actor=actor, reason=reason)

    return command


pauses_cli.command(
    "pause",
    help="Begin no job of a kind or queue until it is resumed. What runs is finished; what waits spends nothing.",
)(_set_pause(True, "The {sort} '{name}' is paused."))
pauses_cli.command("resume", help="Let a kind or queue go on.")(_set_pause(False, "The {sort} '{name}' goes on."))


@workers_cli.callback()
def workers(
    context: typer.Context,
    system: SystemNames = None,
    app: AppPath = None,
    watch: Watching = False,
    as_json: AsJson = False,
) -> None:
    """Workers by their last report. One that was silent for long is not alive; a drained one takes nothing more."""
    if context.invoked_subcommand is None:
        workers_list(system, app, watch, as_json)


@workers_cli.command("list")
def workers_list(
    system: SystemNames = None, app: AppPath = None, watch: Watching = False, as_json: AsJson = False
) -> None:
    """Workers by their last report, as `holdfast workers` alone shows them."""
    from holdfast.operator import fleet

    columns = ["name", "state", "queues", "in_flight", "release", "started_at", "seen_at"]
    show_items(look(system, app), columns, as_json, watch, fleet.list_workers)


def _set_drain(drain: bool, sentence: str) -> Callable[..., None]:
    def command(
        name: WorkerName, actor: Actor = ME, system: SystemNames = None, app: AppPath = None, as_json: AsJson = False
    ) -> None:
        from holdfast.operator import fleet

        carry_out(act(system, app), as_json, sentence, fleet.drain_worker, name, drain=drain, actor=actor)

    return command


workers_cli.command("drain", help="Have a worker end what it has and take nothing more.")(
    _set_drain(True, "Worker {name} takes nothing more.")
)
workers_cli.command("undrain", help="Have a drained worker take jobs again.")(
    _set_drain(False, "Worker {name} takes jobs again.")
)


def jobs_priority(
    job_id: str,
    priority: Annotated[int, typer.Argument(help="0 urgent, 1 high, 2 normal, 3 low.", min=0, max=3)],
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """Give a job that has not ended another priority."""
    from holdfast.operator import jobs

    carry_out(
        act(system, app),
        as_json,
        "Job {id} has the priority {priority}.",
        jobs.set_priority,
        job_id,
        priority=priority,
        actor=actor,
    )


def jobs_run(
    job_id: str, actor: Actor = ME, system: SystemNames = None, app: AppPath = None, as_json: AsJson = False
) -> None:
    """Make a job due that is queued for later."""
    from holdfast.operator import jobs

    carry_out(act(system, app), as_json, "Job {id} is due.", jobs.run_job_now, job_id, actor=actor)


def jobs_delete(
    job_id: str, actor: Actor = ME, system: SystemNames = None, app: AppPath = None, as_json: AsJson = False
) -> None:
    """Delete a job that has ended, with its history."""
    from holdfast.operator import jobs

    carry_out(act(system, app), as_json, "Job {id} is deleted.", jobs.delete_job, job_id, actor=actor)


def jobs_bulk(
    action: Annotated[Action, typer.Argument(help="cancel, replay, priority, run_now or delete")],
    query: Annotated[list[str], typer.Argument(help="Which jobs, as for `jobs list`.")],
    priority: Annotated[int | None, typer.Option(help="For priority: 0 urgent to 3 low.", min=0, max=3)] = None,
    evidence: Annotated[str | None, typer.Option(help="For replay: what was fixed, and how that is known.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which.")] = False,
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """Act on all jobs that fit a query, page by page; Ctrl-C stops between two jobs."""
    from rich.progress import Progress

    from holdfast.operator import job_bulk
    from holdfast.operator.page import PAGE_MAX, ListPage
    from holdfast.operator.query import join_words

    text, cursor = join_words(query), None
    done: list[dict[str, Any]] = []
    refused: list[dict[str, Any]] = []
    with Progress(transient=True, disable=as_json) as progress:
        task = progress.add_task(action, total=None)
        while True:
            answer = at_desk(
                act(system, app),
                job_bulk.act_on_jobs,
                text,
                action,
                actor=actor,
                page=ListPage(PAGE_MAX, cursor),
                evidence=evidence,
                priority=priority,
                dry_run=dry_run,
            )
            done += answer["done"]
            refused += answer["refused"]
            cursor = answer["next"]
            progress.update(task, completed=len(done), description=f"{len(done):,} {action}")
            if cursor is None:
                break
    would = " would be acted on" if dry_run else " done"
    why = f", {len(refused):,} left alone: {refused[0]['detail']}" if refused else ""
    say(f"{len(done):,}{would}{why}.", as_json, action=action, dry_run=dry_run, done=done, refused=refused, next=None)
    if refused and not done:
        fail("Nothing fitted.")

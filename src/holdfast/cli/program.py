"""The command line. Every command that prints also speaks JSON (`--json`); exit codes are for scripts:
0 done, 1 something is wrong with what you asked or found, 2 wrong usage."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

import holdfast
from holdfast.cli import brought, complete, ops, proof, set_up
from holdfast.cli import run as eager_run
from holdfast.cli.plain import RUN, SET_UP, TRY, PlainGroup, misplaced_app, print_help, with_command
from holdfast.cli.reach import fail, say
from holdfast.cli.server import TOKEN_VARIABLE, URL_VARIABLE, choose_server
from holdfast.cli.start import (
    CONCURRENCY_MAX,
    AppPath,
    AsJson,
    SystemNames,
    check_named,
    check_served,
    own_apps,
    run_to_end,
    served_queues,
    settings_now,
)

if TYPE_CHECKING:
    import asyncio

    from holdfast.engines.run import Duties
    from holdfast.kernel.app import App
    from holdfast.kernel.observe.watch import Watch
    from holdfast.settings import Settings
    from holdfast.system import OpenSystem

T = TypeVar("T")
COMPLETING = "_HOLDFAST_COMPLETE"
UP_LEASE_S = 20

cli = typer.Typer(
    name="holdfast",
    no_args_is_help=True,
    cls=PlainGroup,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"holdfast {holdfast.__version__}")
        raise typer.Exit


@cli.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_version, is_eager=True)
    ] = False,
    url: Annotated[
        str | None,
        typer.Option(help="Work at this server, over its API, instead of on the databases.", envvar=URL_VARIABLE),
    ] = None,
    token: Annotated[
        str | None, typer.Option(help="The operator's token for --url.", envvar=TOKEN_VARIABLE, show_envvar=True)
    ] = None,
) -> None:
    """The reliability layer for background work that calls things which fail."""
    choose_server(url, token)


@cli.command(rich_help_panel=RUN)
def up(
    host: Annotated[str | None, typer.Option(help="Address to listen on (HOLDFAST_HOST).")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on (HOLDFAST_PORT).")] = None,
    system: SystemNames = None,
    app: AppPath = None,
) -> None:
    """Run everything in one process: the web server, the workers, the relays. Stop it with Ctrl-C."""
    from holdfast.engines.run import Duties

    _serve(host, port, system, app, Duties(), banner=True)


@cli.command(rich_help_panel=RUN)
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on (HOLDFAST_HOST).")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on (HOLDFAST_PORT).")] = None,
    system: SystemNames = None,
    app: AppPath = None,
    work: Annotated[bool, typer.Option("--work/--no-work", help="Also run jobs in this process.")] = False,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Only show: from the replicas of HOLDFAST_READ_ONLY_URL, if it is set.")
    ] = False,
    database: Annotated[
        list[str] | None,
        typer.Option("--database", help="One console over several deployments: name=URL of each; it does no work."),
    ] = None,
) -> None:
    """Run the web server, with the relay, the consumers and the sweeps of its systems. Workers run elsewhere."""
    from holdfast.engines.run import Duties

    if (read_only or database) and work:
        fail(f"A server that is {'--read-only' if read_only else 'for several databases'} cannot --work.")
    only_shows = read_only or bool(database)
    duties = Duties(work=work, relay=not only_shows, consume=not only_shows, keep=not only_shows)
    _serve(host, port, system, app, duties, banner=False, databases=_named(database or []))


@cli.command(rich_help_panel=RUN)
def worker(
    system: SystemNames = None,
    app: AppPath = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=CONCURRENCY_MAX, help="Jobs in flight (WORKER_CONCURRENCY).")
    ] = None,
    queue: Annotated[
        list[str] | None, typer.Option("--queue", help="Only this queue, as name=jobs in flight; repeat for more.")
    ] = None,
    relay: Annotated[bool, typer.Option("--relay/--no-relay", help="Also publish the outbox.")] = True,
    once: Annotated[bool, typer.Option("--once", help="Run what is due, then stop; the outbox is left.")] = False,
    reload: Annotated[bool, typer.Option("--reload", help="Restart when code below this folder changes.")] = False,
) -> None:
    """Run jobs. SIGTERM stops claiming, finishes what is in flight within the grace time and gives back the rest."""
    import logging

    from holdfast.cli.once import work_once
    from holdfast.cli.reload import run_and_reload
    from holdfast.engines.run import Duties
    from holdfast.errors import HoldfastError
    from holdfast.kernel.observe.watch import LogWatch
    from holdfast.main import start_logging
    from holdfast.settings import Settings
    from holdfast.settings.celery import CelerySettings
    from holdfast.settings.names import misspelt_names

    settings = settings_now()
    if reload:
        check_named(app)
        run_and_reload(sys.argv[1:], settings.grace_s)
        return
    start_logging(settings)
    for sentence in misspelt_names([Settings, CelerySettings], os.environ):
        LogWatch().log("settings.misspelt", level=logging.WARNING, detail=sentence)
    apps, queues = own_apps(app), served_queues(queue)
    if queues and (once or settings.engine == "celery"):
        fail("--queue is for asyncio workers that run until they are stopped.")
    if once:
        ended = run_to_end(work_once(settings, system, apps, concurrency or settings.concurrency))
        typer.echo(f"{ended} attempt{'' if ended == 1 else 's'} ended.")
        return
    if settings.engine == "celery":
        from holdfast.engines.celery import run_celery_worker

        try:
            run_celery_worker(settings, system, apps, concurrency or settings.concurrency)
        except HoldfastError as error:
            fail(str(error))
        return
    jobs_at_once = concurrency or settings.concurrency
    duties = Duties(relay=relay, concurrency=jobs_at_once, grace_s=settings.grace_s, queues=queues)
    run_to_end(_run_duties(settings, system, apps, duties))


@cli.command(rich_help_panel=RUN)
def relay(
    system: SystemNames = None,
    app: AppPath = None,
    once: Annotated[bool, typer.Option("--once", help="Publish what is pending, then stop.")] = False,
    as_json: AsJson = False,
) -> None:
    """Publish the outbox. Several relays may run at once."""
    from holdfast.cli.once import relay_outbox_once
    from holdfast.engines.run import Duties
    from holdfast.main import start_logging

    settings = settings_now()
    start_logging(settings)
    apps = own_apps(app)
    if once:
        number = run_to_end(relay_outbox_once(settings, system, apps))
        say(f"published {number}", as_json, published=number)
        return
    duties = Duties(work=False, consume=False, keep=False, grace_s=settings.grace_s)
    run_to_end(_run_duties(settings, system, apps, duties))


@cli.command(rich_help_panel=RUN)
def keeper(system: SystemNames = None, app: AppPath = None) -> None:
    """Keep the promises that need no worker: leases, deadlines, breakers, schedules, retention. Workers and servers do
    this too, and one process at a time does it for all: run keepers where there may be neither."""
    from holdfast.engines.run import Duties
    from holdfast.main import start_logging

    settings = settings_now()
    start_logging(settings)
    duties = Duties(work=False, relay=False, consume=False, grace_s=settings.grace_s)
    run_to_end(_run_duties(settings, system, own_apps(app), duties))


ops.add_to(cli)
set_up.add_to(cli, SET_UP)
cli.command(context_settings={"ignore_unknown_options": True}, rich_help_panel=TRY)(eager_run.run)  # -7 is JSON too
proof.add_to(cli, TRY)


def _named(databases: list[str]) -> dict[str, str]:
    from holdfast.errors import HoldfastError
    from holdfast.main import named_databases

    try:
        return named_databases(databases)
    except HoldfastError as error:
        fail(str(error))


def _serve(
    host: str | None,
    port: int | None,
    system: list[str] | None,
    app: list[str] | None,
    duties: Duties,
    *,
    banner: bool,
    databases: dict[str, str] | None = None,
) -> None:
    from holdfast.cli.serve import serve_systems
    from holdfast.main import start_logging

    # `up` is for one machine, whose person expects it to start: it migrates unless the setting says otherwise.
    migrates = "true" if banner and os.environ.get("HOLDFAST_AUTO_MIGRATE", "auto") == "auto" else None
    # Its workers may be killed on the front page: their jobs are back soon.
    lease = os.environ.get("WORKER_LEASE_TTL_SEC") or (UP_LEASE_S if banner else None)
    settings = settings_now(
        HOLDFAST_HOST=host, HOLDFAST_PORT=port, HOLDFAST_AUTO_MIGRATE=migrates, WORKER_LEASE_TTL_SEC=lease
    )
    if not banner:
        start_logging(settings)
    duties = replace(duties, grace_s=settings.grace_s)
    own = own_apps(app)
    run_to_end(serve_systems(settings, os.environ, system, own, duties, banner=banner, databases=databases))


async def _run_duties(settings: Settings, system: list[str] | None, apps: list[App], duties: Duties) -> None:
    import asyncio

    from holdfast.engines.collecting import collect_seldom
    from holdfast.engines.run import prepare, run
    from holdfast.engines.stopping import stop_on_signals
    from holdfast.kernel.loop import unless_stopped
    from holdfast.main import close_systems, open_systems

    with stop_on_signals(settings.grace_s) as stop:
        opened = await open_systems(settings, os.environ, system, apps, watch=_watch(settings))
        try:
            check_served(duties.queues, (queue for one in opened for queue in one.kernel.registry.queues))
            for one in opened:
                await unless_stopped(stop, prepare(one.kernel))
            if stop.is_set():
                return
            with collect_seldom(sum(duties.queues.values()) or duties.concurrency):
                async with asyncio.TaskGroup() as group:
                    for one in opened:
                        group.create_task(run(one.kernel, one.duties(duties), stop))
                    if settings.metrics_port:
                        group.create_task(_serve_metrics(settings, opened, stop))
        finally:
            await close_systems(opened)


async def _serve_metrics(settings: Settings, opened: list[OpenSystem], stop: asyncio.Event) -> None:
    import asyncio

    from holdfast.http.metrics import metrics_server

    server = metrics_server(opened, settings)
    async with asyncio.TaskGroup() as group:
        group.create_task(server.serve())
        await stop.wait()
        server.should_exit = True


def _watch(settings: Settings) -> Watch | None:
    if not settings.metrics_port:
        return None
    from holdfast.http.metrics import PrometheusWatch

    return PrometheusWatch()


def main() -> None:
    """The entry point. Only the command that is meant is loaded; of the rest, names and help."""
    if Path.cwd().as_posix() not in sys.path:
        sys.path.insert(0, Path.cwd().as_posix())
    completing = COMPLETING in os.environ
    typed = complete.typed(os.environ) if completing else sys.argv[1:]
    brought.add_to(cli, typed)
    meant = cli if completing else with_command(cli, brought.first_command(typed))
    if "--help" in sys.argv[1:] and print_help(meant, typed):
        return
    if not completing and (way_out := misplaced_app(cli, typed)):
        typer.echo(way_out, err=True)
        sys.exit(2)
    try:
        meant()
    except OSError as error:
        if not isinstance(error.filename, str):
            raise
        advice = "fix its permissions, or name another folder with HOLDFAST_DATA_DIR"
        sys.exit(f"Cannot use {error.filename} ({error.strerror}); {advice}.")

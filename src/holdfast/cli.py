"""The command line. Every command that prints also speaks JSON (`--json`); exit codes are for scripts:
0 done, 1 something is wrong with what you asked or found, 2 wrong usage."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from holdfast import cli_ops
from holdfast.cli_reach import fail, say
from holdfast.engines.run import Duties, prepare, run, stop_on_signals
from holdfast.errors import HoldfastError, SettingsError
from holdfast.kernel.app import App
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.relay import relay_once
from holdfast.kernel.watch import Watch
from holdfast.main import (
    close_systems,
    load_app,
    load_systems,
    open_systems,
    start_logging,
)
from holdfast.settings import Settings, problems, read
from holdfast.system import OpenSystem

T = TypeVar("T")

cli = typer.Typer(
    name="holdfast",
    help="The reliability layer for background work that calls things which fail.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
cli_ops.add_to(cli)

SystemNames = Annotated[
    list[str] | None, typer.Option("--system", help="Only this system; repeat for more. Default: all.")
]
AppPath = Annotated[list[str] | None, typer.Option("--app", help="Your own app, as module:app; repeat for more.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@cli.command()
def up(
    host: Annotated[str | None, typer.Option(help="Address to listen on (HOLDFAST_HOST).")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on (HOLDFAST_PORT).")] = None,
    system: SystemNames = None,
    app: AppPath = None,
) -> None:
    """Run everything in one process: the web server, the workers, the relays. Stop it with Ctrl-C."""
    _serve(host, port, system, app, Duties(), banner=True)


@cli.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on (HOLDFAST_HOST).")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on (HOLDFAST_PORT).")] = None,
    system: SystemNames = None,
    app: AppPath = None,
    work: Annotated[bool, typer.Option("--work/--no-work", help="Also run jobs in this process.")] = False,
) -> None:
    """Run the web server, with the relay, the consumers and the sweeps of its systems. Workers run elsewhere."""
    _serve(host, port, system, app, Duties(work=work), banner=False)


@cli.command()
def worker(
    system: SystemNames = None,
    app: AppPath = None,
    concurrency: Annotated[int | None, typer.Option(help="Jobs in flight (WORKER_CONCURRENCY).")] = None,
    relay: Annotated[bool, typer.Option("--relay/--no-relay", help="Also publish the outbox.")] = True,
) -> None:
    """Run jobs. SIGTERM stops claiming, finishes what is in flight within the grace time and gives back the rest."""
    settings = _settings()
    start_logging(settings)
    apps = _own_apps(app)
    if settings.engine == "celery":
        from holdfast.engines.celery import run_celery_worker

        run_celery_worker(settings, system, apps, concurrency or settings.concurrency)
        return
    duties = Duties(relay=relay, concurrency=concurrency or settings.concurrency, grace_s=settings.grace_s)
    _run(_run_duties(settings, system, apps, duties))


@cli.command()
def relay(
    system: SystemNames = None,
    app: AppPath = None,
    once: Annotated[bool, typer.Option("--once", help="Publish what is pending, then stop.")] = False,
    as_json: AsJson = False,
) -> None:
    """Publish the outbox. Several relays may run at once."""
    settings = _settings()
    start_logging(settings)
    apps = _own_apps(app)
    if once:
        number = _run(_relay_once(settings, system, apps))
        say(f"published {number}", as_json, published=number)
        return
    _run(_run_duties(settings, system, apps, Duties(work=False, consume=False, keep=False)))


@cli.command()
def migrate(system: SystemNames = None, app: AppPath = None, as_json: AsJson = False) -> None:
    """Bring every database forward to what this version needs. Safe on a live database, and to repeat."""

    async def go() -> dict[str, list[str]]:
        opened = await open_systems(_settings(), os.environ, system, _own_apps(app))
        try:
            return {one.name: await one.kernel.migrate() for one in opened}
        finally:
            await close_systems(opened)

    done = _run(go())
    if as_json:
        typer.echo(json.dumps(done))
    else:
        for name, steps in done.items():
            typer.echo(f"{name}: {', '.join(steps) if steps else 'up to date'}")


@cli.command()
def check(as_json: AsJson = False) -> None:
    """Check every setting and print all problems in sentences. Exits 1 if there is one."""
    found = problems(Settings, os.environ)
    for system in load_systems():
        for group in system.settings:
            found += [problem for problem in problems(group, os.environ) if problem not in found]
    if as_json:
        typer.echo(json.dumps({"problems": found}))
    for problem in [] if as_json else found:
        typer.echo(problem, err=True)
    if not found and not as_json:
        typer.echo("All settings are fine.")
    raise typer.Exit(1 if found else 0)


@cli.command()
def token(
    user: Annotated[str, typer.Option("--user", help="Who the token is for (its `sub`).")],
    role: Annotated[
        list[str], typer.Option("--role", help="learner, instructor, operator or service; repeat for more.")
    ],
    hours: Annotated[float, typer.Option(help="How long it is valid.")] = 12.0,
    as_json: AsJson = False,
) -> None:
    """Make a bearer token signed with HOLDFAST_JWT_SECRET (or the data folder's own secret)."""
    from holdfast.http.auth import ROLES, token_for

    unknown = sorted(set(role) - set(ROLES))
    if unknown:
        fail(f"There is no role '{unknown[0]}'; use {', '.join(sorted(ROLES))}.")
    made = token_for(_settings(), user, role, ttl_s=hours * 3600)
    typer.echo(json.dumps({"token": made}) if as_json else made)


@cli.command()
def audit(system: SystemNames = None, app: AppPath = None, as_json: AsJson = False) -> None:
    """Check a live database against everything Holdfast promises. Exits 1 if a promise was broken."""
    from holdfast.proof.audit import audit as check_database

    async def go() -> list[dict[str, str]]:
        opened = await open_systems(_settings(), os.environ, system, _own_apps(app))
        try:
            found = []
            for one in opened:
                await one.kernel.migrate()
                found += [{"system": one.name, "finding": str(each)} for each in await check_database(one.kernel)]
            return found
        finally:
            await close_systems(opened)

    findings = _run(go())
    if as_json:
        typer.echo(json.dumps({"findings": findings}))
    else:
        for one in findings:
            typer.echo(f"{one['system']}: {one['finding']}")
        typer.echo("Every promise was kept." if not findings else f"{len(findings)} finding(s).")
    raise typer.Exit(1 if findings else 0)


@cli.command()
def demo(as_json: AsJson = False) -> None:
    """See it work, in under a minute: real work, a provider that goes down, a dead letter, an account of it all."""
    from rich.console import Console

    from holdfast.demo import demo as play

    try:
        account = _run(play(Console(quiet=as_json)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        typer.echo("Stopped; everything the demo made is removed.", err=True)
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(json.dumps(account.as_json()))
    raise typer.Exit(0 if account.adds_up else 1)


@cli.command()
def simulate(
    seeds: Annotated[int, typer.Option(help="How many seeds to run.", min=1)] = 100,
    first_seed: Annotated[int, typer.Option(help="The first seed; a failure prints its own.")] = 1,
    system: Annotated[str, typer.Option(help="Which world: kernel, a system's name, or all.")] = "all",
    as_json: AsJson = False,
) -> None:
    """Run the whole system under simulated faults: kills, stalls, lost answers, hostile providers and brokers."""
    from holdfast.proof.run import main as run_simulation

    raise typer.Exit(run_simulation(seeds=seeds, first_seed=first_seed, system=system, as_json=as_json))


def _serve(
    host: str | None, port: int | None, system: list[str] | None, app: list[str] | None, duties: Duties, banner: bool
) -> None:
    from holdfast.serve import serve_systems

    settings = _settings(HOLDFAST_HOST=host, HOLDFAST_PORT=port)
    if not banner:
        start_logging(settings)
    _run(serve_systems(settings, os.environ, system, _own_apps(app), duties, banner=banner))


async def _run_duties(settings: Settings, system: list[str] | None, apps: list[App], duties: Duties) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    opened = await open_systems(settings, os.environ, system, apps, watch=_watch(settings))
    try:
        for one in opened:
            await prepare(one.kernel)
        async with asyncio.TaskGroup() as group:
            for one in opened:
                group.create_task(run(one.kernel, one.duties(duties), stop))
            if settings.metrics_port:
                group.create_task(_serve_metrics(settings, opened, stop))
    finally:
        await close_systems(opened)


async def _serve_metrics(settings: Settings, opened: list[OpenSystem], stop: asyncio.Event) -> None:
    from holdfast.http.metrics import metrics_server

    server = metrics_server(opened, settings.host, settings.metrics_port)
    async with asyncio.TaskGroup() as group:
        group.create_task(server.serve())
        await stop.wait()
        server.should_exit = True


async def _relay_once(settings: Settings, system: list[str] | None, apps: list[App]) -> int:
    opened = await open_systems(settings, os.environ, system, apps)
    try:
        total = 0
        for one in opened:
            await prepare(one.kernel)
            await _declare_queues(one.kernel)
            while done := await relay_once(one.kernel):
                total += done
        return total
    finally:
        await close_systems(opened)


async def _declare_queues(kernel: Kernel) -> None:
    """A queue that is not there yet must not count against its messages."""
    queues = [queue for app in kernel.registry.apps for queue in app.queues]
    if queues and kernel.transport is not None:
        await kernel.transport.declare(queues)


def _watch(settings: Settings) -> Watch | None:
    if not settings.metrics_port:
        return None
    from holdfast.http.metrics import PrometheusWatch

    return PrometheusWatch()


def _settings(**given: Any) -> Settings:
    """The environment's settings, with what the command line gave on top."""
    env = dict(os.environ) | {name: str(value) for name, value in given.items() if value is not None}
    try:
        return read(Settings, env)
    except SettingsError as error:
        for problem in error.problems:
            typer.echo(problem, err=True)
        raise typer.Exit(1) from None


def _own_apps(paths: list[str] | None) -> list[App]:
    try:
        return [load_app(path) for path in paths or ()]
    except HoldfastError as error:
        fail(str(error))


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; what Holdfast raises on purpose is one sentence and exit code 1."""
    try:
        return asyncio.run(work)
    except HoldfastError as error:
        fail(str(error))
    except BaseExceptionGroup as group:
        expected = group.subgroup(HoldfastError)
        if expected is None:
            raise
        fail(str(_first(expected)))


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    inner: BaseException = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


def main() -> None:
    """The entry point: the systems' own commands are added first."""
    if Path.cwd().as_posix() not in sys.path:
        sys.path.insert(0, Path.cwd().as_posix())
    for system in load_systems():
        if system.commands is not None:
            system.commands(cli)
    cli()

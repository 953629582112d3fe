"""The commands that measure and prove: audit, simulate, demo, bench."""

from __future__ import annotations

import json
import os
from typing import Annotated

import typer

from holdfast.cli.reach import finite, with_tables
from holdfast.cli.start import AppPath, AsJson, SystemNames, own_apps, run_to_end, settings_now
from holdfast.cli.terminal import printable


def add_to(cli: typer.Typer, panel: str) -> None:
    for command in (demo, audit, simulate, bench):
        cli.command(rich_help_panel=panel)(command)


AskProviders = Annotated[
    bool, typer.Option("--ask-providers", help="Also verify everything marked as sent, where providers know their ids.")
]


def audit(
    system: SystemNames = None, app: AppPath = None, ask_providers: AskProviders = False, as_json: AsJson = False
) -> None:
    """Check a live database against everything Holdfast promises. Exits 1 if a promise was broken."""
    from holdfast.main import close_systems, open_systems
    from holdfast.operator.audit import audit as check_database

    async def go() -> list[dict[str, str]]:
        opened = await open_systems(settings_now(), os.environ, system, own_apps(app), to_look=True)
        try:
            found = []
            for one in await with_tables(opened, chosen=bool(system or app)):
                broken = await check_database(one.kernel, ask_providers=ask_providers)
                found += [{"system": one.name, "finding": str(finding)} for finding in broken]
            return found
        finally:
            await close_systems(opened)

    findings = run_to_end(go())
    if as_json:
        typer.echo(json.dumps({"findings": findings}))
    else:
        for one in findings:
            typer.echo(printable(f"{one['system']}: {one['finding']}"))
        typer.echo("Every promise was kept." if not findings else f"{len(findings)} finding(s).")
    raise typer.Exit(1 if findings else 0)


def demo(as_json: AsJson = False) -> None:
    """See it work, in under a minute: real work, a provider that goes down, a dead letter, an account of it all."""
    import asyncio

    from rich.console import Console

    from holdfast_proof.demo import demo as play

    try:
        account = run_to_end(play(Console(quiet=as_json)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        typer.echo("Stopped; everything the demo made is removed.", err=True)
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(json.dumps(account.as_json()))
    raise typer.Exit(0 if account.adds_up else 1)


def simulate(
    seeds: Annotated[int, typer.Option(help="How many seeds to run.", min=1)] = 100,
    first_seed: Annotated[int | None, typer.Option(help="The first seed; a failure prints its own.")] = None,
    system: Annotated[str, typer.Option(help="Which world: kernel, a system's name, or all.")] = "all",
    minutes: Annotated[
        float, typer.Option(help="Run fresh seeds of every world in turn for this long.", min=0, callback=finite)
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Run the whole system under simulated faults: kills, stalls, lost answers, hostile providers and brokers."""
    from holdfast_proof.command import main as run_simulation

    found = run_simulation(seeds=seeds, first_seed=first_seed, system=system, minutes=minutes, as_json=as_json)
    raise typer.Exit(found)


def bench(
    jobs: Annotated[int, typer.Option(help="How many empty jobs to run.", min=100, max=1_000_000)] = 5_000,
    as_json: AsJson = False,
) -> None:
    """Measure your own database (DATABASE_URL): enqueueing, running, picking up. Leaves nothing behind."""
    from holdfast.main import open_kernel
    from holdfast_proof.bench import bench as measure

    async def go() -> tuple[dict[str, float], list[str]]:
        settings = settings_now()
        kernel = open_kernel(settings, [])
        try:
            figures = await measure(kernel.store, jobs)
            return figures.as_dict(), figures.advice(has_one_writer=kernel.store.has_one_writer)
        finally:
            await kernel.store.close()

    figures, advice = run_to_end(go())
    if as_json:
        typer.echo(json.dumps({**figures, "advice": advice}))
        return
    for name, value in figures.items():
        typer.echo(f"{name.replace('_', ' '):22} {value:>12,.1f}")
    typer.echo("\n".join(advice))

"""The commands that set a deployment up: migrate, check, token."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any

import typer

from holdfast.cli import complete
from holdfast.cli.migrate import migrate
from holdfast.cli.reach import fail, finite
from holdfast.cli.start import AppPath, AsJson, SystemNames, own_apps, settings_now


def add_to(cli: typer.Typer, panel: str) -> None:
    for command in (migrate, check, token):
        cli.command(rich_help_panel=panel)(command)


def check(
    as_json: AsJson = False,
    deploy: Annotated[
        bool, typer.Option("--deploy", help="Compare the loaded code with the jobs in the database instead.")
    ] = False,
    connect: Annotated[
        bool, typer.Option("--connect", help="Reach every database and broker instead, and say what was found.")
    ] = False,
    system: SystemNames = None,
    app: AppPath = None,
) -> None:
    """Check every setting and print all problems in sentences, and what works but leaves a risk. Exits 1 on a
    problem. With --app: load that app too, and say what is wrong with it. With --deploy: list the jobs that the loaded
    code could not run, and exit 1 if there are any. With --connect: reach everything that is configured, and exit 1 if
    something is not as it must be."""
    from holdfast.cli.connect import check_connect
    from holdfast.cli.deploy import check_deploy
    from holdfast.main import load_systems, missing_systems
    from holdfast.operator.incident_news import IncidentSettings
    from holdfast.settings import Settings, notes, problems
    from holdfast.settings.celery import CelerySettings
    from holdfast.settings.names import unknown_names

    if deploy:
        check_deploy(system, app, as_json)
    if connect:
        check_connect(system, app, as_json)
    own_apps(app)
    groups: list[type[Any]] = [
        Settings,
        IncidentSettings,
        *(group for system in load_systems() for group in system.settings),
    ]
    found = list(dict.fromkeys(one for group in groups for one in problems(group, os.environ)))
    risks = list(dict.fromkeys(one for group in groups for one in notes(group, os.environ)))
    risks += [*missing_systems(), *unknown_names([*groups, CelerySettings], os.environ)]
    if as_json:
        typer.echo(json.dumps({"problems": found, "notes": risks}))
        raise typer.Exit(1 if found else 0)
    for problem in found:
        typer.echo(problem, err=True)
    if not found:
        typer.echo("All settings are fine.")
    for risk in risks:
        typer.echo(f"Note: {risk}", err=bool(found))
    raise typer.Exit(1 if found else 0)


def token(
    user: Annotated[str, typer.Option("--user", help="Who the token is for (its `sub`).")],
    role: Annotated[
        list[str],
        typer.Option(
            "--role",
            help="operator, or a role that an installed system brings; repeat for more.",
            autocompletion=complete.roles,
        ),
    ],
    hours: Annotated[float, typer.Option(help="How long it is valid.", min=0, callback=finite)] = 12.0,
    as_json: AsJson = False,
) -> None:
    """Make a bearer token signed with HOLDFAST_JWT_SECRET (or the data folder's own secret)."""
    from holdfast.http.auth import ROLES, known_roles, token_for
    from holdfast.main import load_systems

    known = ROLES if set(role) <= set(ROLES) else known_roles(load_systems())
    unknown = sorted(set(role) - set(known))
    if unknown:
        fail(f"There is no role '{unknown[0]}'; use {', '.join(sorted(known))}.")
    made = token_for(settings_now(), user, role, ttl_s=hours * 3600)
    typer.echo(json.dumps({"token": made}) if as_json else made)

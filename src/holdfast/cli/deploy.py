"""`holdfast check --deploy`: which jobs of a database the loaded code could not run."""

from __future__ import annotations

import json
from typing import NoReturn

import typer

from holdfast.cli.reach import at_desk, look
from holdfast.operator.fleet import list_stranded


def check_deploy(system: list[str] | None, app: list[str] | None, as_json: bool) -> NoReturn:
    """Print every group of jobs that would wait, with the reason; exit 1 if there is one."""
    groups = at_desk(look(system, app), list_stranded)
    if as_json:
        typer.echo(json.dumps({"stranded": groups}))
    for item in groups if not as_json else ():
        where = f"{item['jobs']} of {item['kind']}, stage '{item['stage']}', input version {item['version']}"
        typer.echo(f"{item['system']}: {where}: {item['reason']}.", err=True)
    if not groups and not as_json:
        typer.echo("The loaded code can run every job that has not ended.")
    raise typer.Exit(1 if groups else 0)

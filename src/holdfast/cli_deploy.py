"""`holdfast check --deploy`: which jobs of a database the loaded code could not run."""

from __future__ import annotations

import json
from typing import NoReturn

import typer

from holdfast.cli_reach import each
from holdfast.kernel.deploy import stranded
from holdfast.system import OpenSystem


def check_deploy(system: list[str] | None, app: list[str] | None, as_json: bool) -> NoReturn:
    """Print every group of jobs that would wait, with the reason; exit 1 if there is one."""

    async def compare(one: OpenSystem) -> list[dict[str, object]]:
        return [group._asdict() for group in await stranded(one.kernel)]

    found = each(system, app, compare)
    if as_json:
        typer.echo(json.dumps({"stranded": found}))
    for row in found if not as_json else ():
        where = f"{row['jobs']} of {row['kind']}, stage '{row['stage']}', input version {row['version']}"
        typer.echo(f"{row['system']}: {where}: {row['reason']}.", err=True)
    if not found and not as_json:
        typer.echo("The loaded code can run every job that has not ended.")
    raise typer.Exit(1 if found else 0)

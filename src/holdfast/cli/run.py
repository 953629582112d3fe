"""`holdfast run`: one job, here and now, in a world that is thrown away; and what happened to it."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.reach import fail
from holdfast.cli.start import AsJson, run_to_end
from holdfast.cli.terminal import printable

if TYPE_CHECKING:
    from holdfast.kernel.app import App, Job

DAY_S = 86_400.0
SHOWN_MAX = 300


def run(
    job: Annotated[str, typer.Argument(help="The job class, as module:Class.", metavar="MODULE:CLASS")],
    input: Annotated[str, typer.Argument(help="Its input, as JSON.")] = "null",
    days: Annotated[float, typer.Option(help="How long it may take, on a clock that jumps over waits.")] = 7.0,
    as_json: AsJson = False,
) -> None:
    """Run one job at once, in a world of its own that is thrown away, and show its timeline.

    The database is a private file, and the clock jumps over every wait; your code runs as it is, and what it calls is
    really called. Exits 1 unless the job succeeds."""
    import logging

    logging.disable()  # the timeline tells it all, once
    try:
        shown = run_to_end(_run(job, input, days * DAY_S))
    finally:
        logging.disable(logging.NOTSET)
    if as_json:
        typer.echo(json.dumps(shown))
    else:
        for line in timeline(shown):
            typer.echo(printable(line))
    raise typer.Exit(0 if shown["state"] == "succeeded" else 1)


def load_job(path: str) -> tuple[App, type[Job[Any]]]:
    """The job class behind `module:Class`, and the app that declares it."""
    from holdfast.errors import BadDeclaration, SettingsError
    from holdfast.kernel.app import App, kind_of
    from holdfast.main import import_own

    module_name, _, name = path.partition(":")
    if not name:
        raise SettingsError([f"'{path}' does not name a job; write module:Class."])
    module = import_own(module_name)
    job = getattr(module, name, None)
    if job is None:
        own = [key for key, value in vars(module).items() if isinstance(value, type) and "__holdfast__" in vars(value)]
        has = f"; it has {', '.join(own)}" if own else ""
        raise SettingsError([f"'{module_name}' has no job named '{name}'{has}."])
    kind = kind_of(job)
    for holder in (module, sys.modules[job.__module__]):
        for value in vars(holder).values():
            if isinstance(value, App) and value.kinds.get(kind.name) is kind:
                return value, job
    raise BadDeclaration(f"The app that declares '{name}' is no name of '{module_name}'; put it beside the class.")


async def _run(path: str, text: str, limit_s: float) -> dict[str, Any]:
    from holdfast.errors import InvalidInput
    from holdfast.kernel.app import kind_of
    from holdfast.operator.desk import Desk
    from holdfast.operator.story import show_job
    from holdfast.system import OpenSystem, System
    from holdfast.testing import world

    app, job = load_job(path)
    try:
        json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"The input is no JSON: {error}.") from None
    value = kind_of(job).load_input(text)
    async with world(app) as w:
        job_id = await w.enqueue(job, value)
        try:
            await w.run_until_idle(limit_s=limit_s)
        except AssertionError as error:
            fail(str(error))
        desk = Desk([OpenSystem(System(app.name, app.name, "DATABASE_URL", lambda env: app), w.kernel, {})])
        return await show_job(desk, job_id)


def timeline(shown: dict[str, Any]) -> list[str]:
    """What happened, a line each: after how long on the job's own clock, what, and what came of it."""
    began = _moment(shown["events"][0]["at"])
    lines = [f"{shown['kind']} {shown['id']}"]
    for event in shown["events"]:
        after_s = (_moment(event["at"]) - began).total_seconds()
        facts = ", ".join(
            f"{name} {_short(value)}" for name, value in (event["data"] or {}).items() if name != "run_at"
        )
        lines.append(f"{after_s:10.3f} s  {event['type']:<10} {facts}".rstrip())
    lines += [f"  result of {result['stage']}: {_short(result['value'])}" for result in shown["results"]]
    lines += [f"  effect {effect['key']}: {effect['status']}" for effect in shown["effects"]]
    letter = shown["dead_letter"]
    stack = [letter["last_stack"].rstrip()] if letter and letter["last_stack"] else []
    return [*lines, *stack, shown["why"].partition(" Dead letter ")[0]]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."

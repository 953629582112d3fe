"""`holdfast status`: what asks for a person, in every system, by the same lights as the console and the alerts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.reach import at_desk, look, show
from holdfast.cli.start import AppPath, AsJson, SystemNames, Watching

if TYPE_CHECKING:
    from rich.console import RenderableType

COLOURS = {"red": "bold red", "yellow": "yellow", "green": "green"}
FailIfRed = Annotated[bool, typer.Option("--check", help="Exit 1 if any light is red, for scripts and probes.")]


def status(
    fail_if_red: FailIfRed = False,
    system: SystemNames = None,
    app: AppPath = None,
    watch: Watching = False,
    as_json: AsJson = False,
) -> None:
    """What asks for a person, and how each system is. Green: nothing does; red: somebody should be awake."""
    from holdfast.operator.overview import show_overview

    view: dict[str, Any] = {"items": []}

    def ask() -> dict[str, Any]:
        view.update(at_desk(look(system, app, names_away=True), show_overview))
        return view

    show(ask, draw_status, as_json, watch)
    if fail_if_red and has_red(view):
        raise typer.Exit(1)


def has_red(view: dict[str, Any]) -> bool:
    """Whether any system's light is red."""
    return any(item["light"] == "red" for item in view["items"])


def draw_status(view: dict[str, Any]) -> RenderableType:
    from rich.console import Group

    return Group(*(line for item in view["items"] for line in _lines(item)))


def _lines(item: dict[str, Any]) -> list[RenderableType]:
    from rich.text import Text

    from holdfast.cli.table import hang

    light = item["light"]
    head = Text.assemble((f"{light:6}", COLOURS[light]), " ", (item["system"], "bold"), f"  {_numbers(item)}")
    return [head, *(hang(notice["severity"], notice["sentence"], _style(notice)) for notice in item["asks"])]


def _style(notice: dict[str, Any]) -> str:
    return COLOURS["red" if notice["severity"] == "page" else "yellow"]


def _numbers(item: dict[str, Any]) -> str:
    if "lanes" not in item or not item["runs_jobs"]:
        return ""
    depth = {state: sum(lane["jobs"] for lane in item["lanes"] if lane["state"] == state) for state in STATES}
    parts = [f"{number:,} {word}" for state, word in STATES.items() if (number := depth[state])]
    workers = item["workers"]
    return f"{', '.join(parts) or 'nothing queued'}; {workers} worker{'' if workers == 1 else 's'}"


STATES = {"queued": "queued", "parked": "held", "processing": "running", "waiting": "waiting for a callback"}

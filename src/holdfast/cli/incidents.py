"""Incidents on the command line: list, show, take, hand on, comment, close."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.reach import act, at_desk, look, say, show
from holdfast.cli.start import ME, Actor, AppPath, AsJson, Limit, SystemNames, Watching
from holdfast.cli.terminal import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

incidents_cli = typer.Typer(
    help="Incidents: what asks for a person, from its beginning to its end.", no_args_is_help=True
)
Id = Annotated[str, typer.Argument(help="The incident's id.")]
COLOURS = {"page": "bold red", "ticket": "yellow"}


class IncidentState(StrEnum):
    OPEN = "open"
    OVER = "over"
    CLOSED = "closed"


@incidents_cli.command("list")
def incidents_list(
    state: Annotated[IncidentState | None, typer.Option(help="Only incidents in this state.")] = None,
    limit: Limit = 20,
    system: SystemNames = None,
    app: AppPath = None,
    watch: Watching = False,
    as_json: AsJson = False,
) -> None:
    """Incidents, the newest first: what, since when, who is hit, what comes next."""
    from holdfast.operator import incidents
    from holdfast.operator.page import ListPage

    def ask() -> dict[str, Any]:
        return at_desk(look(system, app), incidents.list_incidents, ListPage(limit), state)

    show(ask, _draw_list, as_json, watch)


def _draw_list(view: dict[str, Any]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    if not view["items"]:
        return Text("Nothing.")
    return Group(*(line for item in view["items"] for line in _lines(item)))


def _lines(item: dict[str, Any]) -> list[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    head = Text.assemble(
        (f"{item['severity']:6}", COLOURS[item["severity"]]),
        f" {item['state']:6} ",
        (item["id"], "bold"),
        f"  since {item['began_at'][:16].replace('T', ' ')} UTC",
        f"  {item['assignee']}" if item["assignee"] else "",
    )
    now = item["now"] or item
    return [head, Padding(Text(now["sentence"]), (0, 0, 0, 7))]


@incidents_cli.command("show")
def incidents_show(
    id: Id,
    markdown: Annotated[bool, typer.Option("--markdown", help="The post-mortem, as Markdown.")] = False,
    system: SystemNames = None,
    app: AppPath = None,
    watch: Watching = False,
    as_json: AsJson = False,
) -> None:
    """One incident: how it is now, whom it hit, what happened when."""
    from holdfast.operator import incidents
    from holdfast.operator.postmortem import write_postmortem

    if markdown:
        typer.echo(printable(at_desk(look(system, app), write_postmortem, id)))
        return
    show(
        lambda: at_desk(look(system, app), incidents.show_incident, id),
        _draw_incident,
        as_json,
        watch,
    )


def _draw_incident(item: dict[str, Any]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from holdfast.cli.table import table_of

    to_do = [Text(f"       {item['now']['to_do']}")] if item["now"] else []
    hit = [Text(f"       {role['jobs']:,} jobs of {role['owners']:,} owners: {role['role']}") for role in item["hit"]]
    return Group(*_lines(item), *to_do, *hit, table_of(item["timeline"], ["at", "who", "what", "text"]))


@incidents_cli.command("ack")
def incidents_ack(
    id: Id, actor: Actor = ME, system: SystemNames = None, app: AppPath = None, as_json: AsJson = False
) -> None:
    """Say that you have it."""
    from holdfast.operator import incidents

    done = at_desk(act(system, app), incidents.acknowledge_incident, id, actor=actor)
    say(f"Incident {id} is yours, {actor}.", as_json, **done)


@incidents_cli.command("assign")
def incidents_assign(
    id: Id,
    assignee: Annotated[str, typer.Argument(help="Whose it is from now on.")],
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """Hand it to somebody."""
    from holdfast.operator import incidents

    done = at_desk(act(system, app), incidents.assign_incident, id, assignee=assignee, actor=actor)
    say(f"Incident {id} is {assignee}'s.", as_json, **done)


@incidents_cli.command("comment")
def incidents_comment(
    id: Id,
    text: Annotated[str, typer.Argument(help="A line for its timeline.")],
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """Write a line into its timeline."""
    from holdfast.operator import incidents

    done = at_desk(act(system, app), incidents.comment_incident, id, text=text, actor=actor)
    say("It is in the timeline.", as_json, **done)


@incidents_cli.command("close")
def incidents_close(
    id: Id,
    summary: Annotated[str, typer.Option(help="What it was, what helped, what is to change.")],
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """Close it when it is over, with what was learned."""
    from holdfast.operator import incidents

    done = at_desk(act(system, app), incidents.close_incident, id, summary=summary, actor=actor)
    say(f"Incident {id} is closed.", as_json, **done)

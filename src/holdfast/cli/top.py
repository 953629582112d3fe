"""`holdfast top`: the deployment at a glance, redrawn every two seconds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast.cli.reach import at_desk, look, show
from holdfast.cli.start import AppPath, AsJson, SystemNames
from holdfast.cli.status import draw_status

if TYPE_CHECKING:
    from rich.console import RenderableType

ROWS = 8


def top(system: SystemNames = None, app: AppPath = None, as_json: AsJson = False) -> None:
    """Watch it work: the lights, held providers, workers, what runs and what waits. Ctrl-C ends it; with --json it is a
    line every two seconds."""
    from holdfast.operator.fleet import list_workers
    from holdfast.operator.jobs import query_jobs
    from holdfast.operator.overview import show_overview
    from holdfast.operator.page import ListPage
    from holdfast.operator.providers import list_breakers

    where = look(system, app, names_away=True)

    def ask() -> dict[str, Any]:
        return {
            "overview": at_desk(where, show_overview)["items"],
            "held": [each for each in at_desk(where, list_breakers)["items"] if each["gate"] != "closed"],
            "workers": [each for each in at_desk(where, list_workers)["items"] if each["alive"]],
            "running": at_desk(where, query_jobs, ListPage(ROWS), "state:processing")["items"],
            "waiting": at_desk(where, query_jobs, ListPage(ROWS), "state:queued sort:oldest")["items"],
        }

    show(ask, _draw, as_json, watch=True)


def _draw(view: dict[str, Any]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from holdfast.cli.table import table_of

    parts: list[RenderableType] = [
        Text(f"Holdfast, {datetime.now(UTC):%H:%M:%S} UTC. Ctrl-C ends it.", style="bright_black"),
        draw_status({"items": view["overview"]}),
    ]
    for title, rows, columns in (
        ("Held providers", view["held"], ["name", "gate", "parked", "open_until", "reason"]),
        ("Workers", view["workers"][:ROWS], ["name", "in_flight", "seen_at", "queues"]),
        ("Running", view["running"], ["id", "kind", "stage", "attempt", "started_at", "owner"]),
        ("Queued", view["waiting"], ["id", "kind", "stage", "failures", "run_at", "hold"]),
    ):
        if rows:
            parts += [Text(), Text(title, style="bold underline"), table_of(rows, columns)]
    return Group(*parts)

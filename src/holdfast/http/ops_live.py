"""What the console lives on: the last hour in numbers, and a stream that says when something has happened.

The stream carries no rows: whoever hears it asks again for what is shown. So it can never show more than the API does.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from holdfast.http.answers.charts import ChartsAnswer
from holdfast.http.answers.documented import documented
from holdfast.http.auth import Principal, require_stream
from holdfast.http.ops_asked import OPERATOR, AtDesk, Filter
from holdfast.http.stream import Event, EventStream, stream
from holdfast.operator import charts
from holdfast.operator.overview import read_mark
from holdfast.stores.seam import Tx

router = APIRouter(prefix="/api/ops", tags=["operations"])
Minutes = Annotated[int, Query(ge=1, le=charts.MINUTES_MAX)]
Until = Annotated[int | None, Query(ge=0, le=2**53, description="In milliseconds since 1970; without it, now.")]


@router.get("/charts", dependencies=[OPERATOR], response_model=documented(ChartsAnswer))
async def read_charts(
    desk: AtDesk,
    minutes: Minutes = 60,
    until: Until = None,
    kind: Filter = None,
    stage: Filter = None,
    queue: Filter = None,
    provider: Filter = None,
    owner: Filter = None,
) -> dict[str, Any]:
    """The last minutes of each system, or those until a moment, of up to thirty days: throughput of jobs and stages by
    outcome, waiting and running times, failures by class, depth, age, calls and cost, and what happened meanwhile; and
    what the largest owners submitted and what of it failed."""
    which = charts.ChartFilter(kind=kind, stage=stage, queue=queue, provider=provider, owner=owner)
    return await charts.read_charts(desk, minutes, until, which)


@router.get("/changes", response_class=EventStream)
async def changes(request: Request, desk: AtDesk, who: Annotated[Principal, require_stream("operator")]) -> Response:
    """Server-sent events: `changed` with the names of the systems in which something has happened."""
    marks: dict[str, Any] = {}
    first = desk.systems[0].kernel

    async def fetch(tx: Tx, after: str | None) -> list[Event]:
        changed: list[str] = []
        for system in desk.systems:
            mark = await read_mark(system, tx if system is desk.systems[0] else None)
            if marks.get(system.name) != mark:
                marks[system.name] = mark
                changed.append(system.name)
        return [Event(str(first.now()), "changed", {"systems": changed})] if changed else []

    return stream(first, request, last_event_id=None, fetch=fetch)

"""What the console lives on: the last hour in numbers, and a stream that says when something has happened.

The stream carries no rows: whoever hears it asks again for what is shown. So it can never show more than the API does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from holdfast.http.auth import Principal, require_stream
from holdfast.http.history import history
from holdfast.http.ops_reach import OPERATOR, SystemName, systems_of
from holdfast.http.stream import Event, stream
from holdfast.stores.seam import Tx
from holdfast.system import OpenSystem
from holdfast.tables import ops

router = APIRouter(prefix="/api/ops", tags=["operations"])
Minutes = Annotated[int, Query(ge=1, le=60)]


@router.get("/history", dependencies=[OPERATOR])
async def show_history(request: Request, minutes: Minutes = 60, system: SystemName = None) -> dict[str, Any]:
    """The last minutes of each system: depth, age, throughput, error rate, latency by provider, gates of breakers."""
    looks = request.app.state.looks
    return {"items": [await history(one, looks, minutes) for one in systems_of(request, system)]}


@router.get("/changes")
async def changes(request: Request, who: Annotated[Principal, require_stream("operator")]) -> Response:
    """Server-sent events: `changed` with the names of the systems in which something has happened."""
    systems: Sequence[OpenSystem] = request.app.state.systems
    known: dict[str, Any] = {}

    async def fetch(tx: Tx, after: str | None) -> list[Event]:
        new: list[str] = []
        for one in systems:
            mark = await _mark(one, tx if one is systems[0] else None)
            if known.get(one.name) != mark:
                known[one.name] = mark
                new.append(one.name)
        return [Event(str(systems[0].kernel.now()), "changed", {"systems": new})] if new else []

    return stream(systems[0].kernel, request, last_event_id=None, fetch=fetch)


async def _mark(one: OpenSystem, tx: Tx | None) -> tuple[int | str | None, ...]:
    if tx is not None:
        return await ops.mark(tx)
    async with one.kernel.store.reading() as own:
        return await ops.mark(own)

"""What the operator's routes are asked with: which systems, which page, who asks."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, Field

from holdfast.http.auth import Principal, require
from holdfast.operator.desk import Desk
from holdfast.operator.human_text import HumanText as HumanText
from holdfast.operator.ids import complete_id
from holdfast.operator.page import PAGE_MAX, ListPage

OPERATOR = require("operator")
Operator = Annotated[Principal, OPERATOR]


def operator_routes(path: str = "") -> APIRouter:
    """Routes for operators below this path. Each is built once, with all of that: to include one router in another
    builds every route again."""
    return APIRouter(prefix=f"/api/ops{path}", tags=["operations"], dependencies=[OPERATOR])


Filter = Annotated[HumanText | None, Query()]
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]
SystemName = Annotated[str | None, Query(description="Only this system.")]
Cursor = Annotated[str | None, Query(alias="next", description="`next` of the page before.", max_length=4_000)]


def _desk(request: Request, system: SystemName = None) -> Desk:
    desk: Desk = request.app.state.desk
    return desk.answering().narrow(system)


def _page(limit: Limit = 50, cursor: Cursor = None) -> ListPage:
    return ListPage(limit, cursor)


AtDesk = Annotated[Desk, Depends(_desk)]
OnPage = Annotated[ListPage, Depends(_page)]
IdText = Annotated[HumanText, Path(description="The id, or its first 8 characters or more.", max_length=100)]


async def _job_id(desk: AtDesk, job_id: IdText) -> str:
    return await complete_id(desk, "job", job_id)


async def _case_id(desk: AtDesk, case_id: IdText) -> str:
    return await complete_id(desk, "dead letter", case_id)


async def _incident_id(desk: AtDesk, incident_id: IdText) -> str:
    return await complete_id(desk, "incident", incident_id)


async def _replay_id(desk: AtDesk, replay_id: IdText) -> str:
    return await complete_id(desk, "replay", replay_id)


JobId = Annotated[str, Depends(_job_id)]
CaseId = Annotated[str, Depends(_case_id)]
IncidentId = Annotated[str, Depends(_incident_id)]
ReplayId = Annotated[str, Depends(_replay_id)]
"""Whole, however much of it was typed."""


class Reason(BaseModel):
    """Why somebody does it; kept with who and when."""

    reason: HumanText = Field(default="by hand", min_length=1, max_length=1_000)

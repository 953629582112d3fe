"""Incidents over HTTP. What each route answers is the desk's (`holdfast.operator.incidents`)."""

from __future__ import annotations

from typing import Any, Literal

from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field

from holdfast.http.answers.documented import documented
from holdfast.http.answers.incidents import IncidentFacts, IncidentPage, IncidentStory
from holdfast.http.ops_asked import AtDesk, HumanText, IncidentId, OnPage, Operator, operator_routes
from holdfast.operator import incidents
from holdfast.operator.postmortem import write_postmortem

router = operator_routes("/incidents")


class Assign(BaseModel):
    assignee: HumanText = Field(min_length=1, max_length=200)


class Comment(BaseModel):
    text: HumanText = Field(min_length=1, max_length=incidents.WORDS_LENGTH_MAX)


class Close(BaseModel):
    """What was learned."""

    summary: HumanText = Field(min_length=1, max_length=incidents.WORDS_LENGTH_MAX)


@router.get("", response_model=documented(IncidentPage))
async def list_incidents(
    desk: AtDesk, page: OnPage, state: Literal["open", "over", "closed"] | None = None
) -> dict[str, Any]:
    """Incidents, the newest first; those that go on say how it is now."""
    return await incidents.list_incidents(desk, page, state)


@router.get("/{incident_id}", response_model=documented(IncidentStory))
async def show_incident(desk: AtDesk, incident_id: IncidentId) -> dict[str, Any]:
    """An incident: how it is now, whom it hit, its timeline and its jobs."""
    return await incidents.show_incident(desk, incident_id)


@router.get("/{incident_id}/post-mortem", response_class=PlainTextResponse)
async def post_mortem(desk: AtDesk, incident_id: IncidentId) -> PlainTextResponse:
    """The incident as a page to keep, in Markdown."""
    return PlainTextResponse(await write_postmortem(desk, incident_id), media_type="text/markdown")


@router.post("/{incident_id}/acknowledge", response_model=documented(IncidentFacts))
async def acknowledge(desk: AtDesk, incident_id: IncidentId, who: Operator) -> dict[str, Any]:
    """Say that you have it."""
    return await incidents.acknowledge_incident(desk, incident_id, actor=who.sub)


@router.post("/{incident_id}/assign", response_model=documented(IncidentFacts))
async def assign(desk: AtDesk, incident_id: IncidentId, body: Assign, who: Operator) -> dict[str, Any]:
    """Hand it to somebody."""
    return await incidents.assign_incident(desk, incident_id, assignee=body.assignee, actor=who.sub)


@router.post("/{incident_id}/comment", response_model=documented(IncidentFacts))
async def comment(desk: AtDesk, incident_id: IncidentId, body: Comment, who: Operator) -> dict[str, Any]:
    """Write a line into its timeline."""
    return await incidents.comment_incident(desk, incident_id, text=body.text, actor=who.sub)


@router.post("/{incident_id}/close", response_model=documented(IncidentFacts))
async def close(desk: AtDesk, incident_id: IncidentId, body: Close, who: Operator) -> dict[str, Any]:
    """Close it when it is over, with what was learned."""
    return await incidents.close_incident(desk, incident_id, summary=body.summary, actor=who.sub)

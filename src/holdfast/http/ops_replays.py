"""Replays of whole groups of dead letters, over HTTP. What each route answers is the desk's (`holdfast.operator`)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from holdfast.core.case import Cause
from holdfast.http.answers.documented import documented
from holdfast.http.answers.letters import GroupPreview, ReplayPage, ReplayStory
from holdfast.http.ops_asked import AtDesk, Filter, HumanText, OnPage, Operator, ReplayId, operator_routes
from holdfast.operator import replays

router = operator_routes()


class MendGroup(BaseModel):
    """Corrected values by their paths, for all of them; how it is known that it is fixed; and how fast."""

    model_config = ConfigDict(extra="forbid")

    cause: Cause = Cause.TRANSIENT
    evidence: HumanText | None = None
    set: dict[HumanText, Any] | None = Field(default=None, max_length=200)
    full: bool = False
    per_minute: float | None = Field(default=None, gt=0, le=1_000_000)
    ids: list[UUID] | None = Field(default=None, min_length=1, max_length=1_000)
    dry_run: bool = False


@router.post("/dead-letters/groups/{fingerprint}/mend", response_model=documented(ReplayStory | GroupPreview))
async def mend_group(desk: AtDesk, fingerprint: HumanText, body: MendGroup, who: Operator) -> dict[str, Any]:
    """Fix and replay all letters of a group, or those with these ids; `dry_run` says what that would change, keep,
    repeat and cost, and until when it would take."""
    group = replays.Group(fingerprint, None if body.ids is None else tuple(str(each) for each in body.ids))
    values, pace = body.set or None, body.per_minute
    if body.dry_run:
        return await replays.preview_group(desk, group, actor=who.sub, values=values, full=body.full, per_minute=pace)
    return await replays.begin_replay(
        desk,
        group,
        actor=who.sub,
        cause=body.cause,
        evidence=body.evidence,
        values=values,
        full=body.full,
        per_minute=pace,
    )


@router.get("/replays", response_model=documented(ReplayPage))
async def list_replays(desk: AtDesk, page: OnPage, fingerprint: Filter = None) -> dict[str, Any]:
    """Replays of groups, the newest first."""
    return await replays.list_replays(desk, page, fingerprint)


@router.get("/replays/{replay_id}", response_model=documented(ReplayStory))
async def show_replay(desk: AtDesk, replay_id: ReplayId) -> dict[str, Any]:
    """A replay: how far it is, what became of its letters, and the first that went wrong again."""
    return await replays.show_replay(desk, replay_id)


@router.post("/replays/{replay_id}/pause", response_model=documented(ReplayStory))
async def pause_replay(desk: AtDesk, replay_id: ReplayId, who: Operator) -> dict[str, Any]:
    """Take no further letter until it is resumed. What was replayed runs on."""
    return await replays.steer_replay(desk, replay_id, "pause", actor=who.sub)


@router.post("/replays/{replay_id}/resume", response_model=documented(ReplayStory))
async def resume_replay(desk: AtDesk, replay_id: ReplayId, who: Operator) -> dict[str, Any]:
    """Go on, at its rate."""
    return await replays.steer_replay(desk, replay_id, "resume", actor=who.sub)


@router.post("/replays/{replay_id}/stop", response_model=documented(ReplayStory))
async def stop_replay(desk: AtDesk, replay_id: ReplayId, who: Operator) -> dict[str, Any]:
    """End it. Letters that were not taken yet stay as they were."""
    return await replays.steer_replay(desk, replay_id, "stop", actor=who.sub)

"""The main app over HTTP: learners submit and follow, instructors review. What is not yours is not there: 404."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict

from holdfast import NotFound
from holdfast.http.answers.documented import Documents, documented
from holdfast.http.auth import Principal, require, require_stream
from holdfast.http.idempotency import answer_text, idempotent
from holdfast.http.limits import Room, hold_to
from holdfast.http.stream import Event, EventStream, last_event_id, stream
from holdfast.kit import Kernel
from holdfast.kit.tables import Tx, idempotency
from holdfast.settings import read
from holdfast_systems.grading import asyncapi, attempts, submissions
from holdfast_systems.grading.accepting import Accepting
from holdfast_systems.grading.answer_types import SubmissionAnswer, SubmissionPage, SubmissionStory
from holdfast_systems.grading.contract import Skill, SpeakingPayload, WritingPayload
from holdfast_systems.grading.instructor_http import instructor_routes
from holdfast_systems.grading.main_app import prepared, submit
from holdfast_systems.grading.ops_http import ops_routes
from holdfast_systems.grading.recordings import recording_routes
from holdfast_systems.grading.resubmission import resubmit_submission
from holdfast_systems.grading.service_http import service_routes
from holdfast_systems.grading.settings import MainSettings
from holdfast_systems.grading.submission_ids import checked_cursor, checked_id
from holdfast_systems.grading.submission_views import attempt_for_learner, shown
from holdfast_systems.grading.submissions import Arrival, StoredSubmission
from holdfast_systems.grading.transitions import FINAL_EVENTS, Status

LEARNER, INSTRUCTOR, LEARNER_STREAM = require("learner"), require("instructor"), require_stream("learner")
Limit = Annotated[int, Query(ge=1, le=200)]
Key = Annotated[str | None, Header(alias="Idempotency-Key")]

SUBMISSION = documented(SubmissionAnswer)


class NewSubmission(BaseModel):
    """A piece of work to grade; `payload` is as the queue contract has it for the skill."""

    model_config = ConfigDict(extra="ignore")

    skill: Skill
    payload: Annotated[dict[str, Any], Documents(WritingPayload | SpeakingPayload)]


def main_routes(kernel: Kernel, env: Mapping[str, str]) -> APIRouter:
    """The routes of an open main app."""
    router = APIRouter(tags=["grading"])
    settings = read(MainSettings, env)
    _add_learner_routes(router, kernel, settings)
    _add_event_route(router, kernel)
    for part in (
        instructor_routes(kernel, env),
        recording_routes(kernel, env),
        ops_routes(kernel, settings),
        service_routes(settings),
    ):
        router.routes.extend(part.routes)

    @router.get("/asyncapi.yaml", include_in_schema=False)
    def queue_contract() -> Response:  # in a thread: the first to ask has it written
        return Response(asyncapi.documents()["asyncapi.yaml"], media_type="application/yaml")

    return router


def _add_learner_routes(router: APIRouter, kernel: Kernel, settings: MainSettings) -> None:
    # Where writers wait for one another each submission is a transaction of its own anyway.
    accepting = None if kernel.store.has_one_writer else Accepting(kernel)
    room = Room(kernel, settings.user_limits, submissions.usage)

    @router.post("/submissions", status_code=201, response_model=SUBMISSION)
    @router.post("/api/submissions", status_code=201, response_model=SUBMISSION)
    async def create(new: NewSubmission, who: Annotated[Principal, LEARNER], key: Key = None) -> Response:
        """Submit a piece of work. The same key and payload give the same answer, however often they come."""
        return await create_submission(kernel, settings, who, new, key, accepting, room)

    @router.get("/submissions", response_model=documented(SubmissionPage))
    @router.get("/api/submissions", response_model=documented(SubmissionPage))
    async def mine(
        who: Annotated[Principal, LEARNER], cursor: str | None = None, status: Status | None = None, limit: Limit = 50
    ) -> dict[str, Any]:
        """The caller's submissions, the newest first."""
        async with kernel.store.reading() as tx:
            found = await submissions.page(tx, who.sub, checked_cursor(cursor), status, limit + 1)
        return {
            "items": [shown(one) for one in found[:limit]],
            "nextCursor": found[limit - 1].id if len(found) > limit else None,
        }

    @router.get("/submissions/{submission_id}", response_model=documented(SubmissionStory))
    @router.get("/api/submissions/{submission_id}", response_model=documented(SubmissionStory))
    async def one(submission_id: str, who: Annotated[Principal, LEARNER]) -> dict[str, Any]:
        """One of the caller's submissions; `attempts` has those before the present one, if it was submitted again."""
        stored = await _owned(kernel, submission_id, who)
        if stored.attempt == 1:
            return shown(stored)
        async with kernel.store.reading() as tx:
            history = await attempts.of_submission(tx, stored.id)
        return shown(stored) | {"attempts": [attempt_for_learner(past) for past in history]}

    @router.post("/submissions/{submission_id}/resubmit", status_code=201, response_model=SUBMISSION)
    @router.post("/api/submissions/{submission_id}/resubmit", status_code=201, response_model=SUBMISSION)
    async def resubmit(submission_id: str, who: Annotated[Principal, LEARNER], key: Key = None) -> Response:
        """Submit one's own failed work again, as the next attempt: a new request and a new deadline."""
        await _owned(kernel, submission_id, who)
        return await resubmit_submission(kernel, settings, submission_id, who, key, required=True)


async def create_submission(
    kernel: Kernel,
    settings: MainSettings,
    who: Principal,
    new: NewSubmission,
    key: str | None,
    accepting: Accepting | None = None,
    room: Room | None = None,
) -> Response:
    """What POST /api/submissions does; with `accepting`, in company, for those who are far from every limit."""
    has_room = room is not None and await room.admits(who.sub)

    async def make(tx: Tx) -> tuple[int, dict[str, Any]]:
        if not has_room:
            await hold_to(kernel, tx, who, settings.user_limits, submissions.usage, "submissions")
        return 201, shown(await submit(kernel, tx, settings, who.sub, new.skill, new.payload))

    async def at_once(reserved: idempotency.Reserved) -> tuple[int, str] | None:
        assert accepting is not None
        made, message, sealed = prepared(kernel, settings, who.sub, new.skill, new.payload)
        if sealed:
            return None  # written the longer way, with its credentials apart
        answer = answer_text(shown(made))
        won = await accepting.put(Arrival(made, message, reserved, 201, answer))
        return (201, answer) if won else None

    payload = {"skill": new.skill, "payload": new.payload}
    return await idempotent(
        kernel,
        who,
        "POST /api/submissions",
        key,
        payload,
        make,
        required=True,
        at_once=at_once if accepting is not None and has_room else None,
    )


def _add_event_route(router: APIRouter, kernel: Kernel) -> None:
    @router.get("/submissions/{submission_id}/events", response_class=EventStream)
    @router.get("/api/submissions/{submission_id}/events", response_class=EventStream)
    async def events(submission_id: str, request: Request, who: Annotated[Principal, LEARNER_STREAM]) -> Response:
        """Server-sent events: what was missed since `Last-Event-ID`, then what happens, until the end."""
        await _owned(kernel, submission_id, who)
        after = last_event_id(request)

        async def fetch(tx: Tx, since: str | None) -> Sequence[Event]:
            rows = await submissions.events_after(tx, submission_id, since)
            # A failure is the end only while nothing followed it: a recovery or the next attempt goes on.
            return [
                Event(
                    row["event_id"], row["kind"], json.loads(row["data"]), row["kind"] in FINAL_EVENTS and row is last
                )
                for last in rows[-1:]
                for row in rows
            ]

        async with kernel.store.reading() as tx:
            over = await _is_over(tx, submission_id) and not await fetch(tx, after)
        if over:
            return Response(status_code=204)  # tells an EventSource that has seen the end not to come back
        return stream(kernel, request, last_event_id=after, fetch=fetch, channel=submissions.CHANNEL)


async def _owned(kernel: Kernel, submission_id: str, who: Principal) -> StoredSubmission:
    """The caller's own submission; anybody else's looks like none."""
    async with kernel.store.reading() as tx:
        stored = await submissions.show(tx, checked_id(submission_id))
    if stored is None or stored.user_id != who.sub:
        raise NotFound("There is no such submission.")
    return stored


async def _is_over(tx: Tx, submission_id: str) -> bool:
    stored = await submissions.show(tx, submission_id)
    return stored is not None and stored.state.status in ("COMPLETED", "FAILED")

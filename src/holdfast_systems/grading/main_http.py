"""The main app over HTTP: learners submit and follow, instructors review. What is not yours is not there: 404."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from holdfast import NotFound
from holdfast.http.auth import Principal, require, require_stream
from holdfast.http.idempotency import answer_text, idempotent
from holdfast.http.limits import Room, hold_to
from holdfast.http.problem import Problem
from holdfast.http.stream import Event, last_event_id, stream
from holdfast.kit import Kernel, Tx, audit, idempotency
from holdfast.settings import read
from holdfast_systems.grading import asyncapi, attempts, submissions, transitions
from holdfast_systems.grading.accepting import Accepting
from holdfast_systems.grading.contract import Skill
from holdfast_systems.grading.grade import Band
from holdfast_systems.grading.main_app import prepared, submit
from holdfast_systems.grading.ops_http import ops_routes
from holdfast_systems.grading.recordings import recording_routes
from holdfast_systems.grading.resubmission import resubmit_submission
from holdfast_systems.grading.service_http import service_routes
from holdfast_systems.grading.settings import MainSettings
from holdfast_systems.grading.submission_ids import UUID, checked_cursor, checked_id
from holdfast_systems.grading.submission_views import attempt_for_learner, for_instructor, shown
from holdfast_systems.grading.submissions import Arrival, StoredSubmission
from holdfast_systems.grading.transitions import FINAL_EVENTS, PRIORITIES, Status, SubmissionChange, TransitionRefusal

LEARNER, INSTRUCTOR, LEARNER_STREAM = require("learner"), require("instructor"), require_stream("learner")
Limit = Annotated[int, Query(ge=1, le=200)]
Key = Annotated[str | None, Header(alias="Idempotency-Key")]


class NewSubmission(BaseModel):
    """A piece of work to grade; `payload` is as the queue contract has it for the skill."""

    model_config = ConfigDict(extra="ignore")

    skill: Skill
    payload: dict[str, Any]


class InstructorReview(BaseModel):
    """An instructor's grade. Without a band, the band of the score."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, extra="ignore", allow_inf_nan=False)

    overall_score: Annotated[float, Field(ge=0, le=10)]
    band: Band | None = None
    feedback: Annotated[str, Field(max_length=10_000)] | None = None


def main_routes(kernel: Kernel, env: Mapping[str, str]) -> APIRouter:
    """The routes of an open main app."""
    router = APIRouter(tags=["grading"])
    settings = read(MainSettings, env)
    _add_learner_routes(router, kernel, settings)
    _add_event_route(router, kernel)
    _add_instructor_routes(router, kernel)
    router.include_router(recording_routes(kernel, env))
    router.include_router(ops_routes(kernel, settings))
    router.include_router(service_routes(settings))
    contract = asyncapi.documents()["asyncapi.yaml"]

    @router.get("/asyncapi.yaml", include_in_schema=False)
    async def queue_contract() -> Response:
        return Response(contract, media_type="application/yaml")

    return router


def _add_learner_routes(router: APIRouter, kernel: Kernel, settings: MainSettings) -> None:
    # SQLite has one writer: each submission is a transaction of its own anyway.
    accepting = None if kernel.store.dialect == "sqlite" else Accepting(kernel)
    room = Room(kernel, settings.user_limits, submissions.usage)

    @router.post("/submissions", status_code=201)
    @router.post("/api/submissions", status_code=201)
    async def create(new: NewSubmission, who: Annotated[Principal, LEARNER], key: Key = None) -> Response:
        """Submit a piece of work. The same key and payload give the same answer, however often they come."""
        return await create_submission(kernel, settings, who, new, key, accepting, room)

    @router.get("/submissions")
    @router.get("/api/submissions")
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

    @router.get("/submissions/{submission_id}")
    @router.get("/api/submissions/{submission_id}")
    async def one(submission_id: str, who: Annotated[Principal, LEARNER]) -> dict[str, Any]:
        """One of the caller's submissions; `attempts` has those before the present one, if it was submitted again."""
        stored = await _owned(kernel, submission_id, who)
        if stored.attempt == 1:
            return shown(stored)
        async with kernel.store.reading() as tx:
            history = await attempts.of_submission(tx, stored.id)
        return shown(stored) | {"attempts": [attempt_for_learner(past) for past in history]}

    @router.post("/submissions/{submission_id}/resubmit", status_code=201)
    @router.post("/api/submissions/{submission_id}/resubmit", status_code=201)
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
    @router.get("/submissions/{submission_id}/events")
    @router.get("/api/submissions/{submission_id}/events")
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


def _add_instructor_routes(router: APIRouter, kernel: Kernel) -> None:
    @router.get("/api/instructor/queue")
    async def queue(
        who: Annotated[Principal, INSTRUCTOR], cursor: str | None = None, limit: Limit = 50
    ) -> dict[str, Any]:
        """What waits for a person: by priority, then age."""
        async with kernel.store.reading() as tx:
            found = await submissions.in_review(tx, _queue_cursor(cursor), limit + 1)
        last = found[limit - 1] if len(found) > limit else None
        return {"items": [for_instructor(one) for one in found[:limit]], "nextCursor": last and _place(last)}

    @router.post("/api/submissions/{submission_id}/review/claim")
    async def claim(submission_id: str, who: Annotated[Principal, INSTRUCTOR]) -> dict[str, Any]:
        return await instructor_step(
            kernel, submission_id, lambda one, now: transitions.claim(one, who.sub, now), (who.sub, "claimed")
        )

    @router.post("/api/submissions/{submission_id}/review/release")
    async def release(
        submission_id: str, who: Annotated[Principal, require("instructor", "operator")]
    ) -> dict[str, Any]:
        any_claim = who.may("operator")
        return await instructor_step(
            kernel,
            submission_id,
            lambda one, now: transitions.release(one, who.sub, any_claim=any_claim),
            (who.sub, "released"),
        )

    @router.post("/api/submissions/{submission_id}/review")
    async def review(
        submission_id: str, given: InstructorReview, who: Annotated[Principal, INSTRUCTOR], key: Key = None
    ) -> Response:
        """Submit a review of a claimed submission. With an Idempotency-Key it may safely be sent again."""
        return await submit_review(kernel, submission_id, who, given, key)


async def submit_review(
    kernel: Kernel, submission_id: str, who: Principal, given: InstructorReview, key: str | None
) -> Response:
    """What POST /api/submissions/{id}/review does."""

    async def make(tx: Tx) -> tuple[int, dict[str, Any]]:
        return 200, await _decide(
            kernel,
            tx,
            submission_id,
            lambda one, now: transitions.review(one, who.sub, given.overall_score, given.band, given.feedback, now),
            (who.sub, "reviewed"),
        )

    route = f"POST /api/submissions/{submission_id}/review"
    return await idempotent(kernel, who, route, key, given.model_dump(mode="json"), make, required=False)


Decide = Callable[[transitions.Submission, int], SubmissionChange | None]
Act = tuple[str, str]
"""Who did what, for the audit."""


async def instructor_step(kernel: Kernel, submission_id: str, decide: Decide, act: Act | None = None) -> dict[str, Any]:
    """Claim or release, in a transaction of its own."""
    async with kernel.store.transaction() as tx:
        return await _decide(kernel, tx, submission_id, decide, act)


async def _decide(kernel: Kernel, tx: Tx, submission_id: str, decide: Decide, act: Act | None) -> dict[str, Any]:
    """An instructor's step: under the row's lock, refused with 409 where the state has no such step, and audited."""
    stored = await submissions.lock(tx, checked_id(submission_id))
    if stored is None:
        raise NotFound("There is no such submission.")
    now = kernel.now()
    try:
        decided = decide(stored.state, now)
    except TransitionRefusal as refusal:
        raise Problem(409, refusal.code, str(refusal)) from None
    if act is not None and decided is not None:
        await audit.write(tx, act[0], f"submission.{act[1]}", f"submission:{stored.id}", None, now)
    return for_instructor(await submissions.change(kernel, tx, stored, decided, now))


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


def _queue_cursor(cursor: str | None) -> tuple[int, str] | None:
    if cursor is None:
        return None
    rank, _, last = cursor.partition(":")
    if rank not in ("0", "1", "2", "3") or not UUID.fullmatch(last):
        raise Problem(422, "INVALID_INPUT", "The cursor is not one of ours.")
    return int(rank), last


def _place(stored: StoredSubmission) -> str:
    assert stored.state.priority is not None
    return f"{PRIORITIES.index(stored.state.priority)}:{stored.id}"

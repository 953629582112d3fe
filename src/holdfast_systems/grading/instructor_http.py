"""The instructor's desk over HTTP: the queue, one piece of work with its rubric and its sound, the review, and the
instructor's own history. For instructors only; who has claimed what is seen by all of them at once."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from holdfast import CallError, NotFound
from holdfast.http.answers.documented import documented
from holdfast.http.auth import Principal, require, require_stream
from holdfast.http.files import FileAnswer
from holdfast.http.idempotency import idempotent
from holdfast.http.problem import Problem
from holdfast.http.stream import Event, EventStream, stream
from holdfast.kit import Kernel
from holdfast.kit.tables import Tx, audit
from holdfast.providers.outbound import fetch
from holdfast.settings import read
from holdfast_systems.grading import submissions, transitions
from holdfast_systems.grading.answer_types import ReviewedWork, ReviewHistory, ReviewQueue, WorkAnswer
from holdfast_systems.grading.audio import media_type
from holdfast_systems.grading.contract import Priority, Skill
from holdfast_systems.grading.grade import Band
from holdfast_systems.grading.instructor import disagreement
from holdfast_systems.grading.recording_files import find_uploaded, keep
from holdfast_systems.grading.rubric import rubric_of
from holdfast_systems.grading.settings import ServiceSettings
from holdfast_systems.grading.submission_ids import UUID, checked_cursor, checked_id
from holdfast_systems.grading.submission_views import for_instructor
from holdfast_systems.grading.submissions import StoredSubmission
from holdfast_systems.grading.transitions import PRIORITIES, SubmissionChange, TransitionRefusal

INSTRUCTOR, INSTRUCTOR_STREAM = require("instructor"), require_stream("instructor")
Instructor = Annotated[Principal, INSTRUCTOR]
Releasing = Annotated[Principal, require("instructor", "operator")]
Limit = Annotated[int, Query(ge=1, le=200)]
Key = Annotated[str | None, Header(alias="Idempotency-Key")]
Score = Annotated[float, Field(ge=0, le=10)]

WORK = documented(ReviewedWork)


class SoundAnswer(FileAnswer):
    """For `response_class`: the document says that a route answers with sound."""

    media_type = "audio/*"


class InstructorReview(BaseModel):
    """An instructor's grade. Without a band, the band of the score; with criteria, all four of them."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, extra="ignore", allow_inf_nan=False)

    overall_score: Score
    band: Band | None = None
    feedback: Annotated[str, Field(max_length=10_000)] | None = None
    criteria: Annotated[dict[str, Score], Field(max_length=8)] | None = None


def instructor_routes(kernel: Kernel, env: Mapping[str, str]) -> APIRouter:
    """What an instructor sees and does."""
    router = APIRouter(tags=["grading"])
    settings = read(ServiceSettings, env)
    _add_queue_routes(router, kernel)
    _add_work_routes(router, kernel, settings)
    _add_step_routes(router, kernel)
    return router


def _add_queue_routes(router: APIRouter, kernel: Kernel) -> None:
    @router.get("/api/instructor/queue", response_model=documented(ReviewQueue))
    async def queue(
        who: Instructor,
        cursor: str | None = None,
        limit: Limit = 50,
        skill: Skill | None = None,
        priority: Priority | None = None,
        free: bool = False,
    ) -> dict[str, Any]:
        """What waits for a person: by priority, then age. `free`: without what others have claimed."""
        async with kernel.store.reading() as tx:
            rows = await submissions.in_review(
                tx,
                _queue_cursor(cursor),
                limit + 1,
                skill=skill,
                priority=priority,
                free_for=who.sub if free else None,
            )
            counts = await submissions.review_counts(tx)
        last = rows[limit - 1] if len(rows) > limit else None
        return {
            "items": [for_instructor(row) for row in rows[:limit]],
            "nextCursor": _place(last) if last else None,
            "counts": [
                {"skill": row["skill"], "priority": PRIORITIES[row["priority_rank"]], "waiting": row["waiting"]}
                for row in counts
            ],
        }

    @router.get("/api/instructor/history", response_model=documented(ReviewHistory))
    async def history(who: Instructor, cursor: str | None = None, limit: Limit = 50) -> dict[str, Any]:
        """What the caller has decided, the newest first."""
        async with kernel.store.reading() as tx:
            rows = await submissions.reviewed_by(tx, who.sub, checked_cursor(cursor), limit + 1)
        more = rows[limit - 1].id if len(rows) > limit else None
        return {"items": [for_instructor(row) for row in rows[:limit]], "nextCursor": more}

    @router.get("/api/instructor/events", response_class=EventStream)
    async def events(request: Request, who: Annotated[Principal, INSTRUCTOR_STREAM]) -> Response:
        """Server-sent events: `queue` whenever the queue or a claim in it has changed. It carries no work."""

        async def look(tx: Tx, after: str | None) -> list[Event]:
            mark = ":".join(map(str, await submissions.review_mark(tx)))
            return [] if mark == after else [Event(mark, "queue", {})]

        return stream(kernel, request, last_event_id=None, fetch=look, channel=submissions.CHANNEL)


def _add_work_routes(router: APIRouter, kernel: Kernel, settings: ServiceSettings) -> None:
    @router.get("/api/instructor/submissions/{submission_id}", response_model=documented(WorkAnswer))
    async def work(submission_id: str, who: Instructor) -> dict[str, Any]:
        """One piece of work that waits for a review or had one, with the rubric."""
        stored = await _reviewable(kernel, submission_id)
        url = stored.payload.get("audioUrl")
        rubric = [criterion.model_dump() for criterion in rubric_of(stored.skill)]
        return for_instructor(stored) | {"rubric": rubric, "hasAudio": isinstance(url, str) and bool(url)}

    @router.get("/api/instructor/submissions/{submission_id}/audio", response_class=SoundAnswer)
    async def audio(submission_id: str, who: Instructor) -> SoundAnswer:
        """The recording, whole or by `Range`. What was uploaded here is read from its folder; anything else is fetched
        under the policy that the grading service has."""
        stored = await _reviewable(kernel, submission_id)
        url = stored.payload.get("audioUrl")
        if not isinstance(url, str) or not url:
            raise NotFound("This piece of work has no recording.")
        path = await _recording(settings, url, kernel.now() / 1_000)
        kind = await asyncio.to_thread(media_type, path)
        # Only ever sound: whatever a stranger uploaded, no browser reads it as a page.
        return SoundAnswer(path, media_type=kind, headers={"Content-Disposition": "attachment"})


async def _recording(settings: ServiceSettings, url: str, now_s: float) -> Path:
    uploaded = await asyncio.to_thread(find_uploaded, settings.recordings_folder, url)
    if uploaded is not None:
        return uploaded
    folder = settings.recordings_folder.with_name("recordings-heard")
    path = folder / hashlib.sha256(url.encode()).hexdigest()
    if not await asyncio.to_thread(path.is_file):
        try:
            fetched = await fetch(url, settings.outbound)
        except CallError as error:
            raise Problem(502, "RECORDING_UNAVAILABLE", f"The recording cannot be fetched: {error}") from None
        await asyncio.to_thread(keep, folder, path.name, fetched.content, now_s)
    return path


def _add_step_routes(router: APIRouter, kernel: Kernel) -> None:
    @router.post("/api/submissions/{submission_id}/review/claim", response_model=WORK)
    async def claim(submission_id: str, who: Instructor) -> dict[str, Any]:
        """Take a piece of work for review; 409 if it is another's."""
        return await instructor_step(
            kernel, submission_id, lambda one, now: transitions.claim(one, who.sub, now), (who.sub, "claimed")
        )

    @router.post("/api/submissions/{submission_id}/review/release", response_model=WORK)
    async def release(submission_id: str, who: Releasing) -> dict[str, Any]:
        """Give a claim back. An operator may free what somebody left behind."""
        any_claim = who.may("operator")
        return await instructor_step(
            kernel,
            submission_id,
            lambda one, now: transitions.release(one, who.sub, any_claim=any_claim),
            (who.sub, "released"),
        )

    @router.post("/api/submissions/{submission_id}/review", response_model=WORK)
    async def review(submission_id: str, given: InstructorReview, who: Instructor, key: Key = None) -> Response:
        """Submit a review of a claimed submission. With an Idempotency-Key it may safely be sent again."""
        return await submit_review(kernel, submission_id, who, given, key)


async def submit_review(
    kernel: Kernel, submission_id: str, who: Principal, given: InstructorReview, key: str | None
) -> Response:
    """What POST /api/submissions/{id}/review does. A grade that contradicts itself is refused."""
    why = disagreement(given.overall_score, given.band, given.criteria)
    if why is not None:
        raise Problem(422, "GRADE_DISAGREES", why)

    def settle(before: transitions.Submission, now: int) -> SubmissionChange:
        return transitions.review(before, who.sub, given.overall_score, given.band, given.feedback, now, given.criteria)

    async def make(tx: Tx) -> tuple[int, dict[str, Any]]:
        return 200, await _decide(kernel, tx, submission_id, settle, (who.sub, "reviewed"))

    route = f"POST /api/submissions/{submission_id}/review"
    asked = given.model_dump(mode="json", exclude=None if given.criteria else {"criteria"})
    return await idempotent(kernel, who, route, key, asked, make, required=False)


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


async def _reviewable(kernel: Kernel, submission_id: str) -> StoredSubmission:
    """A submission that an instructor has to do with: in review, or reviewed."""
    async with kernel.store.reading() as tx:
        stored = await submissions.show(tx, checked_id(submission_id))
    if stored is None or not (stored.state.status == "REVIEW_REQUIRED" or stored.state.reviewed_by):
        raise NotFound("There is no such submission for an instructor.")
    return stored


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

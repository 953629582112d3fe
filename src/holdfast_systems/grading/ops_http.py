"""The main app's part of the operator's API: submissions, refused callbacks, the dead-letter queue. Operators only."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query
from fastapi.responses import Response
from pydantic import BaseModel, Field

from holdfast import NotFound
from holdfast.http.answers.documented import documented
from holdfast.http.auth import Principal, require
from holdfast.http.ops_asked import Filter
from holdfast.http.problem import Problem
from holdfast.kit import Kernel
from holdfast_systems.grading import desk, letters
from holdfast_systems.grading.answer_types import (
    QueuedLetterRow,
    QueuedLetterRows,
    RefusedCallbacks,
    SubmissionAnswer,
    SubmissionRows,
    WholeQueuedLetter,
    WholeSubmission,
)
from holdfast_systems.grading.desk import Wanted
from holdfast_systems.grading.letters import shown_letter
from holdfast_systems.grading.resubmission import resubmit_submission
from holdfast_systems.grading.settings import MainSettings
from holdfast_systems.grading.submission_ids import checked_cursor, checked_id
from holdfast_systems.grading.submission_views import for_operator
from holdfast_systems.grading.transitions import Status

OPERATOR = require("operator")
Limit = Annotated[int, Query(ge=1, le=200)]
Key = Annotated[str | None, Header(alias="Idempotency-Key")]
LetterId = Annotated[str, Path(max_length=64)]
_PLACE = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")


class Why(BaseModel):
    """Why a person does something, for the audit."""

    reason: Annotated[str, Field(min_length=1, max_length=letters.REASON_LENGTH_MAX)]


def ops_routes(kernel: Kernel, settings: MainSettings) -> APIRouter:
    """The routes under /api/ops that only the main app has."""
    router = APIRouter(prefix="/api/ops", tags=["grading", "operations"])

    @router.get("/submissions", response_model=documented(SubmissionRows))
    async def list_submissions(
        who: Annotated[Principal, OPERATOR],
        status: Status | None = None,
        reason: Filter = None,
        user: Filter = None,
        late: bool | None = None,
        flagged: bool | None = None,
        cursor: str | None = None,
        limit: Limit = 50,
    ) -> dict[str, Any]:
        """Submissions by how they stand, the newest first. `late`: a result came after the deadline; `flagged`: for
        audit. Their stored results are shown, what the learner wrote is not."""
        wanted = Wanted(status, reason, user, late, flagged)
        async with kernel.store.reading() as tx:
            rows = await desk.page(tx, wanted, checked_cursor(cursor), limit + 1)
        return {
            "items": [for_operator(row) for row in rows[:limit]],
            "nextCursor": rows[limit - 1].id if len(rows) > limit else None,
        }

    @router.get("/submissions/{submission_id}", response_model=documented(WholeSubmission))
    async def show_submission(submission_id: str, who: Annotated[Principal, OPERATOR]) -> dict[str, Any]:
        """One submission with its results, its attempts and every callback that named it, refused ones included."""
        whole = await desk.show(kernel, checked_id(submission_id))
        if whole is None:
            raise NotFound("There is no such submission.")
        return whole

    @router.post("/submissions/{submission_id}/resubmit", status_code=201, response_model=documented(SubmissionAnswer))
    async def resubmit(submission_id: str, who: Annotated[Principal, OPERATOR], key: Key = None) -> Response:
        """Submit a learner's failed work again, as its next attempt. With an Idempotency-Key it may be sent again."""
        return await resubmit_submission(kernel, settings, submission_id, who, key, required=False)

    @router.get("/refused-callbacks", response_model=documented(RefusedCallbacks))
    async def refused_callbacks(
        who: Annotated[Principal, OPERATOR], cursor: str | None = None, limit: Limit = 50
    ) -> dict[str, Any]:
        """What came on `grading.callback` and was no callback, the newest first."""
        async with kernel.store.reading() as tx:
            rows = await desk.refused(tx, _place(cursor), limit + 1)
        last = rows[limit - 1] if len(rows) > limit else None
        return {
            "items": [desk.shown_refusal(row) for row in rows[:limit]],
            "nextCursor": None if last is None else f"{last['last_at']}:{last['fingerprint']}",
        }

    _add_letter_routes(router, kernel)
    return router


def _add_letter_routes(router: APIRouter, kernel: Kernel) -> None:
    @router.get("/dlq", response_model=documented(QueuedLetterRows))
    async def list_letters(who: Annotated[Principal, OPERATOR], limit: Limit = 50) -> dict[str, Any]:
        """What lies in `grading.dlq`, the oldest first. Looking takes nothing away."""
        return {"items": [shown_letter(letter) for letter in await letters.list_letters(kernel, limit)]}

    @router.get("/dlq/{letter_id}", response_model=documented(WholeQueuedLetter))
    async def show_letter(letter_id: LetterId, who: Annotated[Principal, OPERATOR]) -> dict[str, Any]:
        """One letter with its original message, in the queue or in the record of what was done about it."""
        return shown_letter(await letters.show_letter(kernel, letter_id), whole=True)

    @router.post("/dlq/{letter_id}/resend", response_model=documented(QueuedLetterRow))
    async def resend(letter_id: LetterId, given: Why, who: Annotated[Principal, OPERATOR]) -> dict[str, Any]:
        """Send the letter's request again, once, under its own request id, and take the letter away."""
        return shown_letter(await letters.resend(kernel, letter_id, actor=who.sub, reason=given.reason))

    @router.post("/dlq/{letter_id}/archive", response_model=documented(QueuedLetterRow))
    async def archive(letter_id: LetterId, given: Why, who: Annotated[Principal, OPERATOR]) -> dict[str, Any]:
        """Take a letter away; it stays in the record, with the reason."""
        return shown_letter(await letters.archive(kernel, letter_id, actor=who.sub, reason=given.reason))


def _place(cursor: str | None) -> tuple[int, str] | None:
    if cursor is None:
        return None
    match = _PLACE.fullmatch(cursor)
    if match is None:
        raise Problem(422, "INVALID_INPUT", "The cursor is not one of ours.")
    return int(match.group(1)), match.group(2)

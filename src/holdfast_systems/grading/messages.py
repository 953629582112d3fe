"""Writes the contract's messages. Ids and times are arguments: nothing here looks at a clock or rolls a die.

Also the rules that turn a confidence into a review: below 85 a person reviews (70..84 Medium, 50..69 High,
below 50 Critical); 85..89 completes with an audit flag, and so does anything with a signal.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import JsonValue

from holdfast_systems.grading.contract import (
    CALLBACK_QUEUE,
    DEAD_LETTER_QUEUE,
    REQUEST_QUEUE,
    CompletedCallback,
    CompletedData,
    DeadLetter,
    ErrorCallback,
    ErrorData,
    ErrorDetail,
    Priority,
    Progress,
    ProgressCallback,
    ProgressData,
    Result,
    SpeakingRequest,
    WritingRequest,
)
from holdfast_systems.grading.grade import Band, Grade
from holdfast_systems.grading.wire import BODY_BYTES_MAX, InvalidMessage, read_object

REVIEW_BELOW = 85
AUDIT_BELOW = 90


def review_required(confidence: int, review_below: int = REVIEW_BELOW) -> bool:
    return confidence < review_below


def review_priority(confidence: int) -> Priority | None:
    """How soon a person should look; None when no review is required."""
    if not review_required(confidence):
        return None
    if confidence >= 70:
        return "Medium"
    return "High" if confidence >= 50 else "Critical"


def audit_flag(confidence: int, signals: Sequence[str] = ()) -> bool:
    return REVIEW_BELOW <= confidence < AUDIT_BELOW or bool(signals)


def result_of(
    grade: Grade, confidence: int, *, transcript: str | None = None, review_below: int = REVIEW_BELOW
) -> Result:
    """The callback's result for a grade and the confidence in it. `review_below` is the operator's word on how sure is
    sure enough; what completes below 90 is flagged for audit wherever that is."""
    return result(
        grade.overall_score,
        grade.band,
        confidence,
        signals=grade.signals,
        transcript=transcript,
        extras=grade.wire(),
        review_below=review_below,
    )


def result(
    overall_score: float,
    band: Band,
    confidence: int,
    *,
    signals: Sequence[str] = (),
    transcript: str | None = None,
    extras: dict[str, Any] | None = None,
    review_below: int = REVIEW_BELOW,
) -> Result:
    """A result whose review fields follow from its confidence."""
    known = extras or {}
    reviewed = review_required(confidence, review_below)
    unsure = not reviewed and confidence < AUDIT_BELOW
    return Result(
        overall_score=overall_score,
        band=band,
        confidence_score=confidence,
        review_required=reviewed,
        review_priority=(review_priority(confidence) or "Low") if reviewed else None,
        audit_flag=unsure or audit_flag(confidence, signals),
        criteria=known.get("criteria"),
        feedback=known.get("feedback"),
        signals=list(signals),
        method=known.get("method"),
        transcript=transcript,
        features=known.get("features"),
    )


def progress(
    request_id: str,
    submission_id: str,
    *,
    event_id: str,
    event_at: datetime,
    status: Progress,
    progress: float | None = None,
    message: str | None = None,
) -> ProgressCallback:
    return ProgressCallback(
        message_type=CALLBACK_QUEUE,
        request_id=request_id,
        submission_id=submission_id,
        event_id=event_id,
        event_at=event_at,
        kind="progress",
        data=ProgressData(status=status, progress=progress, message=message),
    )


def completed(
    request_id: str, submission_id: str, *, event_id: str, event_at: datetime, result: Result
) -> CompletedCallback:
    return CompletedCallback(
        message_type=CALLBACK_QUEUE,
        request_id=request_id,
        submission_id=submission_id,
        event_id=event_id,
        event_at=event_at,
        kind="completed",
        data=CompletedData(result=result),
    )


def error(
    request_id: str,
    submission_id: str | None,
    *,
    event_id: str,
    event_at: datetime,
    type: str,
    code: str,
    message: str,
    retryable: bool,
) -> ErrorCallback:
    """An error callback. A request whose submissionId was unreadable is answered with an empty one."""
    return ErrorCallback(
        message_type=CALLBACK_QUEUE,
        request_id=request_id,
        submission_id=submission_id or "",
        event_id=event_id,
        event_at=event_at,
        kind="error",
        data=ErrorData(error=ErrorDetail(type=type, code=code, message=message, retryable=retryable)),
    )


def request(
    request_id: str,
    submission_id: str,
    user_id: str,
    *,
    attempt: int,
    deadline_at: datetime,
    skill: str,
    payload: dict[str, Any],
) -> WritingRequest | SpeakingRequest:
    """The request for a submission. `payload` is as the learner sent it; a wrong one is a ValidationError."""
    model = WritingRequest if skill == "writing" else SpeakingRequest
    return model.model_validate(
        {
            "messageType": REQUEST_QUEUE,
            "requestId": request_id,
            "submissionId": submission_id,
            "userId": user_id,
            "attempt": attempt,
            "deadlineAt": deadline_at,
            "skill": skill,
            "payload": payload,
        }
    )


def dead_letter(
    request_id: str | None,
    submission_id: str | None,
    *,
    failure_reason: str,
    attempts_made: int,
    last_error: str,
    timestamp: datetime,
    original: bytes,
    error_class: str | None = None,
    stage: str | None = None,
) -> DeadLetter:
    """What goes to `grading.dlq`: the reason, and the original in the most readable form that is faithful."""
    kept = original[:BODY_BYTES_MAX]
    message, encoding = _faithful(kept)
    return DeadLetter(
        message_type=DEAD_LETTER_QUEUE,
        request_id=request_id,
        submission_id=submission_id,
        failure_reason=failure_reason,
        attempts_made=attempts_made,
        last_error=last_error,
        timestamp=timestamp,
        error_class=error_class,
        stage=stage,
        original_message=message,
        original_encoding=encoding,
        original_bytes=len(original),
        original_sha256=hashlib.sha256(original).hexdigest(),
        original_truncated=len(kept) < len(original),
    )


def _faithful(body: bytes) -> tuple[JsonValue, Any]:
    try:
        return read_object(body), "json"
    except InvalidMessage:
        pass
    try:
        return body.decode("utf-8"), "text"
    except UnicodeDecodeError:
        return base64.b64encode(body).decode("ascii"), "base64"

"""The life of a submission, as pure functions: what a callback, the clock or an instructor makes of it.

    PENDING --any callback--> PROCESSING --completed--> COMPLETED
       \\                         |  \\---completed, review required--> REVIEW_REQUIRED --reviewed--> COMPLETED
        \\------past deadline, final error------> FAILED --completed before the deadline--> COMPLETED, REVIEW_REQUIRED
                                                    \\--resubmitted: the next attempt--> PENDING

COMPLETED never changes, and FAILED(TIMEOUT) only by a resubmission. A result that follows a final error of the same
request before the deadline is authoritative: somebody mended the cause and replayed it. Every function answers None for
"changes nothing", so that duplicates, stragglers and late news are harmless by construction. Nothing here looks at a
clock: the time of receipt is an argument. TIMEOUT is said by the main app's own comparison alone.

Why so: docs/decisions/0013-recovery-recovers.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, assert_never

from holdfast_systems.grading import messages
from holdfast_systems.grading.contract import (
    Callback,
    CompletedCallback,
    ErrorCallback,
    Priority,
    ProgressCallback,
    Result,
)
from holdfast_systems.grading.grade import Band, band_of
from holdfast_systems.grading.instructor import settle_review, weigh_criteria

Status = Literal["PENDING", "PROCESSING", "REVIEW_REQUIRED", "COMPLETED", "FAILED"]
LIVE: frozenset[Status] = frozenset({"PENDING", "PROCESSING"})
EDGES: frozenset[tuple[Status, Status]] = frozenset(
    {
        ("PENDING", "PROCESSING"),
        ("PENDING", "REVIEW_REQUIRED"),
        ("PENDING", "COMPLETED"),
        ("PENDING", "FAILED"),
        ("PROCESSING", "REVIEW_REQUIRED"),
        ("PROCESSING", "COMPLETED"),
        ("PROCESSING", "FAILED"),
        ("REVIEW_REQUIRED", "COMPLETED"),
        ("FAILED", "COMPLETED"),
        ("FAILED", "REVIEW_REQUIRED"),
        ("FAILED", "PENDING"),
    }
)
TIMEOUT = "TIMEOUT"
SERVICE_TIMEOUT = "SERVICE_TIMEOUT"
"""What a grading service calls a timeout while the submission's deadline has not passed."""
STEPS = ("PROCESSING", "ANALYZING", "GRADING")
PRIORITIES: tuple[Priority, ...] = ("Critical", "High", "Medium", "Low")

Json = dict[str, Any]
EventName = Literal["grading.progress", "grading.review_required", "grading.completed", "grading.failed"]
FINAL_EVENTS: frozenset[str] = frozenset({"grading.completed", "grading.failed"})


@dataclass(frozen=True, slots=True)
class Submission:
    """All of a submission that may change, and the deadline it is held to."""

    status: Status
    deadline_at: int
    step: str | None = None
    progress: float | None = None
    ai_result: Json | None = None
    human_result: Json | None = None
    final_result: Json | None = None
    failure_reason: str | None = None
    is_late: bool = False
    audit_flag: bool = False
    priority: Priority | None = None
    mode: Literal["ai", "hybrid", "human"] | None = None
    claimed_by: str | None = None
    claimed_at: int | None = None
    reviewed_by: str | None = None
    finished_at: int | None = None


@dataclass(frozen=True, slots=True)
class SubmissionEvent:
    """What the learner is told of a change."""

    name: EventName
    data: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SubmissionChange:
    """The submission after something happened; `event` is None if the learner need not know."""

    after: Submission
    event: SubmissionEvent | None = None


class TransitionRefusal(Exception):
    """A person asked for a step that the submission's state does not have. `code` is stable."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def apply(before: Submission, callback: Callback, received_at: int) -> SubmissionChange | None:
    """What a callback changes. The same callback twice, or in another order, never moves a submission backwards."""
    match callback:
        case ProgressCallback():
            return expire(before, received_at) or _progress(before, callback)
        case ErrorCallback():
            return expire(before, received_at) or _error(before, callback, received_at)
        case CompletedCallback():
            return _completed(before, callback.data.result, received_at)
        case _:
            assert_never(callback)


def expire(before: Submission, now: int) -> SubmissionChange | None:
    """Fail what is past its deadline. The sweep does this, and so does a callback that comes before the sweep."""
    if before.status not in LIVE or now <= before.deadline_at:
        return None
    return _failed(before, TIMEOUT, now)


def _progress(before: Submission, callback: ProgressCallback) -> SubmissionChange | None:
    data = callback.data
    if before.status not in LIVE or not _advances(before, data.status, data.progress):
        return None
    reached = max(before.progress or 0.0, data.progress or 0.0)
    after = replace(before, status="PROCESSING", step=data.status, progress=reached)
    said = {"status": data.status, "progress": reached}
    return SubmissionChange(
        after, SubmissionEvent("grading.progress", said | ({"message": data.message} if data.message else {}))
    )


def _advances(before: Submission, step: str, progress: float | None) -> bool:
    """A later step advances; the same step does if its number rises; an earlier one is a straggler."""
    known = -1 if before.step is None else STEPS.index(before.step)
    if STEPS.index(step) != known:
        return STEPS.index(step) > known
    return progress is not None and progress > (before.progress or 0.0)


def _error(before: Submission, callback: ErrorCallback, received_at: int) -> SubmissionChange | None:
    if before.status not in LIVE:
        return None
    error = callback.data.error
    if not error.retryable:
        # `expire` came first, so the deadline has not passed: then a service's own TIMEOUT is no TIMEOUT of ours.
        return _failed(before, SERVICE_TIMEOUT if error.code == TIMEOUT else error.code, received_at)
    after = replace(before, status="PROCESSING", step=before.step or "PROCESSING")
    said = {"status": after.step, "progress": before.progress or 0.0, "delayedBy": error.code}
    return SubmissionChange(after, SubmissionEvent("grading.progress", said))


def _completed(before: Submission, result: Result, received_at: int) -> SubmissionChange | None:
    """The first result stands. One that comes after the deadline is kept for audit and changes nothing else."""
    if before.ai_result is not None:
        return None
    kept = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    expired = expire(before, received_at)
    if expired is not None:
        return SubmissionChange(replace(expired.after, ai_result=kept, is_late=True), expired.event)
    if before.status not in LIVE and not _may_recover(before, received_at):
        return SubmissionChange(replace(before, ai_result=kept, is_late=received_at > before.deadline_at))
    # The flag is ours to set: whoever reads the result later, an auditor first of all, must see it.
    kept["auditFlag"] = audit = result.audit_flag or messages.audit_flag(result.confidence_score)
    graded = replace(before, ai_result=kept, audit_flag=audit, failure_reason=None, finished_at=None)
    if result.review_required:
        priority = result.review_priority or messages.review_priority(result.confidence_score) or "Low"
        after = replace(graded, status="REVIEW_REQUIRED", priority=priority)
        return SubmissionChange(after, SubmissionEvent("grading.review_required", {"reviewPriority": priority}))
    after = replace(graded, status="COMPLETED", mode="ai", final_result=kept, finished_at=received_at)
    return SubmissionChange(after, SubmissionEvent("grading.completed", {"result": kept}))


def _may_recover(before: Submission, received_at: int) -> bool:
    """Whether a result undoes the failure: a final error came first, and the deadline has not passed."""
    return before.status == "FAILED" and before.failure_reason != TIMEOUT and received_at <= before.deadline_at


def resubmit(before: Submission, deadline_at: int) -> SubmissionChange:
    """Begin the next attempt of what has failed. What the attempt before it left is kept in the history, not here."""
    if before.status != "FAILED":
        raise TransitionRefusal(
            "NOT_FAILED", f"The submission is {before.status}; only a failed one can be submitted again."
        )
    return SubmissionChange(
        Submission("PENDING", deadline_at), SubmissionEvent("grading.progress", {"status": "PENDING", "progress": 0.0})
    )


def _failed(before: Submission, reason: str, at: int) -> SubmissionChange:
    after = replace(before, status="FAILED", failure_reason=reason, finished_at=at)
    return SubmissionChange(after, SubmissionEvent("grading.failed", {"failureReason": reason}))


def claim(before: Submission, instructor: str, now: int) -> SubmissionChange | None:
    """Take a submission for review. Claiming one's own again changes nothing."""
    _in_review(before)
    if before.claimed_by == instructor:
        return None
    if before.claimed_by is not None:
        raise TransitionRefusal("ALREADY_CLAIMED", "Another instructor has claimed this submission.")
    return SubmissionChange(replace(before, claimed_by=instructor, claimed_at=now))


def release(before: Submission, instructor: str, *, any_claim: bool = False) -> SubmissionChange | None:
    """Give a claim back. `any_claim`: an operator may free what somebody left behind."""
    _in_review(before)
    if before.claimed_by is None:
        return None
    if before.claimed_by != instructor and not any_claim:
        raise TransitionRefusal("ALREADY_CLAIMED", "Another instructor has claimed this submission.")
    return SubmissionChange(replace(before, claimed_by=None, claimed_at=None))


def review(
    before: Submission,
    instructor: str,
    score: float,
    band: Band | None,
    feedback: str | None,
    now: int,
    criteria: Mapping[str, float] | None = None,
) -> SubmissionChange:
    """Settle a review by the 0.4 / 0.6 rule. The AI's, the human's and the final result are all kept."""
    _in_review(before)
    if before.claimed_by is None:
        raise TransitionRefusal("NOT_CLAIMED", "Claim the submission before reviewing it.")
    if before.claimed_by != instructor:
        raise TransitionRefusal("ALREADY_CLAIMED", "Another instructor has claimed this submission.")
    assert before.ai_result is not None, "what is in review was graded"
    settled = settle_review(before.ai_result["overallScore"], before.ai_result["band"], score, band)
    human: Json = {"overallScore": score, "band": band or band_of(score), "reviewedBy": instructor}
    final = before.ai_result | {
        "overallScore": settled.final_score,
        "band": settled.band,
        "mode": settled.mode,
        "reviewRequired": False,
        "auditFlag": before.audit_flag or settled.audit_flag,
    }
    final.pop("reviewPriority", None)
    if criteria is not None:
        human["criteria"] = {name: {"score": given} for name, given in criteria.items()}
        final["criteria"] = weigh_criteria(before.ai_result.get("criteria"), criteria, settled.mode)
    if feedback is not None:
        human["feedback"] = feedback
        final["instructorFeedback"] = feedback
    after = replace(
        before,
        status="COMPLETED",
        human_result=human,
        final_result=final,
        mode=settled.mode,
        audit_flag=before.audit_flag or settled.audit_flag,
        reviewed_by=instructor,
        finished_at=now,
    )
    return SubmissionChange(after, SubmissionEvent("grading.completed", {"result": final}))


def _in_review(before: Submission) -> None:
    if before.status != "REVIEW_REQUIRED":
        raise TransitionRefusal("NOT_IN_REVIEW", f"The submission is {before.status}; it is not waiting for a review.")

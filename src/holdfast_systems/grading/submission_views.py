"""A submission as its learner, an instructor and an operator see it."""

from __future__ import annotations

from typing import Any

from holdfast.kit import iso
from holdfast_systems.grading.attempts import PastAttempt
from holdfast_systems.grading.reasons import advice
from holdfast_systems.grading.submissions import StoredSubmission


def shown(stored: StoredSubmission) -> dict[str, Any]:
    """A submission as its learner sees it: no result before it is final."""
    state = stored.state
    body: dict[str, Any] = {
        "id": stored.id,
        "requestId": stored.request_id,
        "skill": stored.skill,
        "attempt": stored.attempt,
        "status": state.status,
        "progress": {"status": state.step, "progress": state.progress} if state.step else None,
        "createdAt": iso(stored.created_at),
        "updatedAt": iso(stored.updated_at),
        "deadlineAt": iso(state.deadline_at),
        "isLate": state.is_late,
        "payload": stored.payload,
    }
    if state.status == "COMPLETED":
        body |= {"result": state.final_result, "completedAt": iso(state.finished_at or stored.updated_at)}
    if state.status == "FAILED":
        body |= {"failureReason": state.failure_reason, "failureAdvice": advice(state.failure_reason)}
    return body


def for_instructor(stored: StoredSubmission) -> dict[str, Any]:
    """A submission as an instructor sees it: the AI's, the human's and the final result side by side."""
    state = stored.state
    return shown(stored) | {
        "userId": stored.user_id,
        "reviewPriority": state.priority,
        "auditFlag": state.audit_flag,
        "mode": state.mode,
        "claimedBy": state.claimed_by,
        "claimedAt": None if state.claimed_at is None else iso(state.claimed_at),
        "reviewedBy": state.reviewed_by,
        "aiResult": state.ai_result,
        "humanResult": state.human_result,
        "finalResult": state.final_result,
    }


def for_operator(stored: StoredSubmission) -> dict[str, Any]:
    """A submission as an operator sees it in a list: how it stands, not what the learner wrote."""
    body = for_instructor(stored) | {"failureReason": stored.state.failure_reason}
    body["finishedAt"] = None if stored.state.finished_at is None else iso(stored.state.finished_at)
    for name in ("payload", "result", "completedAt"):
        body.pop(name, None)
    return body


def attempt_for_learner(past: PastAttempt) -> dict[str, Any]:
    """A past attempt and how it ended, without a result that never counted."""
    return {
        "attempt": past.attempt,
        "requestId": past.request_id,
        "status": "FAILED",
        "failureReason": past.failure_reason,
        "createdAt": iso(past.created_at),
        "deadlineAt": iso(past.deadline_at),
        "finishedAt": iso(past.finished_at),
        "isLate": past.is_late,
    }


def attempt_for_operator(past: PastAttempt) -> dict[str, Any]:
    """A past attempt with the result that came for it, and who began the next one."""
    return attempt_for_learner(past) | {
        "aiResult": past.ai_result,
        "supersededAt": iso(past.superseded_at),
        "supersededBy": past.superseded_by,
    }

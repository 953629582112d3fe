"""What a review is shown as: its own row, and its job's row where the job knows better."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast_systems.review.reviews import _stored, status_of

ENDED = {"status": "failed", "finished_at": 9, "error_class": "OWN", "error": "own words", "failed_stage": "llm"}
DONE = {"status": "succeeded", "finished_at": 9}
FAILURE = '{"error_class": "JOBS", "message": "the job\'s words"}'
JOBS, OWN, NOTHING = ("JOBS", "the job's words"), ("OWN", "own words"), (None, None)
CASES: list[tuple[dict[str, Any], str, tuple[Any, ...]]] = [
    ({"job_state": "queued"}, "in_progress", (*NOTHING, None, None, None, "notify")),
    ({"job_state": "queued", "first_failure_at": 3}, "retryable_failed", (*JOBS, None, 7, None, "notify")),
    ({"job_state": "processing", "first_failure_at": 3}, "in_progress", (*NOTHING, None, None, None, "notify")),
    ({"job_state": "waiting", "first_failure_at": 3}, "in_progress", (*NOTHING, None, None, None, "notify")),
    ({"job_state": "dead"}, "failed", (*JOBS, None, None, "case-1", "notify")),
    ({"job_state": "cancelled"}, "failed", (*JOBS, None, None, "case-1", "notify")),
    ({"job_state": "dead", **ENDED}, "failed", (*OWN, 9, None, "case-1", "llm")),
    ({"job_state": "succeeded", **DONE}, "succeeded", (*NOTHING, 9, None, None, "notify")),
    ({"job_state": None, **DONE}, "succeeded", (*NOTHING, 9, None, None, "notify")),
    ({"job_state": None, **ENDED}, "failed", (*OWN, 9, None, "case-1", "llm")),
    # Brought back by an operator: what the review said at its end no longer holds.
    ({"job_state": "queued", **ENDED}, "in_progress", (*NOTHING, None, None, None, "notify")),
    ({"job_state": "processing", **ENDED}, "in_progress", (*NOTHING, None, None, None, "notify")),
    ({"job_state": "queued", **ENDED, "first_failure_at": 3}, "retryable_failed", (*JOBS, None, 7, None, "notify")),
]


@pytest.mark.spec("R1", "R5")
@pytest.mark.parametrize(("given", "status", "shown"), CASES)
def test_a_failure_is_shown_while_it_holds(given: dict[str, Any], status: str, shown: tuple[Any, ...]) -> None:
    row: dict[str, Any] = {
        "id": "r",
        "changelist_id": "cl-1",
        "review_version": 1,
        "idempotency_key": "k",
        "fingerprint": "f",
        "job_id": "j",
        "source": "{}",
        "title": "t",
        "sender": "s",
        "status": "in_progress",
        "job_stage": "notify",
        "failed_stage": None,
        "created_at": 1,
        "updated_at": 2,
        "finished_at": None,
        "result": None,
        "error_class": None,
        "error": None,
        "first_failure_at": None,
        "run_at": 7,
        "dead_letter_id": "case-1",
        "job_error": FAILURE,
    } | given
    assert status_of(row) == status
    found = _stored(row)
    seen = (found.error_class, found.error, found.finished_at, found.retry_at, found.dead_letter_id, found.stage)
    assert (found.status, seen) == (status, shown)

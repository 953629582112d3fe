"""Callbacks and results for tests, as a grading service would send them."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

from holdfast_systems.grading import messages
from holdfast_systems.grading.contract import Callback, Progress, Result
from holdfast_systems.grading.delivery import SpokenDelivery
from holdfast_systems.grading.grade import CRITERIA, Criterion, Grade, TaskType, band_of, grade_of

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ESSAY = " ".join(["Cities grow because people look for work and company"] * 28)


def event_id() -> str:
    return str(uuid.uuid4())


def result(score: float = 7.0, confidence: int = 95, **extra: Any) -> Result:
    return messages.result(score, band_of(score), confidence, **extra)


def progress(request: str, submission: str, status: Progress = "PROCESSING", share: float | None = None) -> Callback:
    return messages.progress(request, submission, event_id=event_id(), event_at=NOON, status=status, progress=share)


def completed(request: str, submission: str, given: Result | None = None) -> Callback:
    return messages.completed(request, submission, event_id=event_id(), event_at=NOON, result=given or result())


def error(request: str, submission: str, code: str = "LLM_TIMEOUT", *, retryable: bool = False) -> Callback:
    return messages.error(
        request,
        submission,
        event_id=event_id(),
        event_at=NOON,
        type=code,
        code=code,
        message="made by a test",
        retryable=retryable,
    )


def plain_grade(score: float = 7.0) -> Grade:
    return grade_of({name: Criterion(score, f"About {name}.") for name in CRITERIA}, method="offline")


class PlainGrader:
    """Grades everything alike, and counts. The real grader has its own tests."""

    def __init__(self, score: float = 7.0) -> None:
        self.score = score
        self.graded = 0

    def grade_writing(self, text: str, task_type: TaskType, question: str | None = None) -> Grade:
        self.graded += 1
        return plain_grade(self.score)

    def grade_speaking(
        self, transcript: str, duration_s: float, delivery: SpokenDelivery | None = None, question: str | None = None
    ) -> Grade:
        self.graded += 1
        return plain_grade(self.score)

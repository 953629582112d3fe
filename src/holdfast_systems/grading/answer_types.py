"""What the routes of the main app answer, typed: the OpenAPI document is made from it, and the tests hold every answer
against it."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from pydantic import ConfigDict
from typing_extensions import TypedDict

from holdfast_systems.grading.contract import Priority, Progress, Skill
from holdfast_systems.grading.grade import Band, TaskType
from holdfast_systems.grading.letters import State as LetterState
from holdfast_systems.grading.rubric import CriterionRubric
from holdfast_systems.grading.transitions import Status

Mode = Literal["ai", "hybrid", "human"]


class WritingWork(TypedDict):
    text: str
    taskType: TaskType
    questionId: str
    questionText: NotRequired[str]


class SpeakingWork(TypedDict):
    audioUrl: str
    durationSeconds: int
    questionId: str
    part: NotRequired[int]
    questionText: NotRequired[str]


class GradeAnswer(TypedDict):
    """A grade. What a grading service adds, or shapes its own way, is kept as it was sent."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    overallScore: float
    band: Band
    confidenceScore: int
    reviewRequired: bool
    reviewPriority: NotRequired[Priority]
    auditFlag: bool
    criteria: NotRequired[Any]
    feedback: NotRequired[Any]
    signals: NotRequired[Any]
    method: NotRequired[Any]
    transcript: NotRequired[Any]
    features: NotRequired[Any]


class FinalGrade(GradeAnswer):
    """The grade that counts; `mode` and the rest once an instructor has had a say."""

    mode: NotRequired[Mode]
    instructorFeedback: NotRequired[str]


class CriterionGiven(TypedDict):
    score: float


class HumanGrade(TypedDict):
    overallScore: float
    band: Band
    reviewedBy: str
    criteria: NotRequired[dict[str, CriterionGiven]]
    feedback: NotRequired[str]


class GradingStep(TypedDict):
    status: Progress
    progress: float | None


class SubmissionFacts(TypedDict):
    """How a submission stands; `failureAdvice` is for its learner."""

    id: str
    requestId: str
    skill: Skill
    attempt: int
    status: Status
    progress: GradingStep | None
    createdAt: str
    updatedAt: str
    deadlineAt: str
    isLate: bool
    failureReason: NotRequired[str | None]
    failureAdvice: NotRequired[str | None]


class SubmissionAnswer(SubmissionFacts):
    """A learner's own. There is no result before it is final."""

    payload: WritingWork | SpeakingWork
    result: NotRequired[FinalGrade]
    completedAt: NotRequired[str]


class EarlierAttempt(TypedDict):
    attempt: int
    requestId: str
    status: Literal["FAILED"]
    failureReason: str
    createdAt: str
    deadlineAt: str
    finishedAt: str
    isLate: bool


class SubmissionStory(SubmissionAnswer):
    """`attempts`: those before the present one, if it was submitted again."""

    attempts: NotRequired[list[EarlierAttempt]]


class SubmissionPage(TypedDict):
    items: list[SubmissionAnswer]
    nextCursor: str | None


class ReviewFacts(TypedDict):
    """What instructors and operators see beside it: the AI's, the human's and the final grade."""

    userId: str
    reviewPriority: Priority | None
    auditFlag: bool
    mode: Mode | None
    claimedBy: str | None
    claimedAt: str | None
    reviewedBy: str | None
    aiResult: GradeAnswer | None
    humanResult: HumanGrade | None
    finalResult: FinalGrade | None


class ReviewedWork(SubmissionAnswer, ReviewFacts):
    """A submission as an instructor sees it."""


class WorkAnswer(ReviewedWork):
    rubric: list[CriterionRubric]
    hasAudio: bool


class ReviewCount(TypedDict):
    skill: Skill
    priority: Priority
    waiting: int


class ReviewQueue(TypedDict):
    items: list[ReviewedWork]
    nextCursor: str | None
    counts: list[ReviewCount]


class ReviewHistory(TypedDict):
    items: list[ReviewedWork]
    nextCursor: str | None


class SubmissionRow(SubmissionFacts, ReviewFacts):
    """A submission as an operator sees it in a list: not what the learner wrote."""

    finishedAt: str | None


class SubmissionRows(TypedDict):
    items: list[SubmissionRow]
    nextCursor: str | None


class AttemptRow(EarlierAttempt):
    aiResult: GradeAnswer | None
    supersededAt: str
    supersededBy: str


class CallbackRow(TypedDict):
    eventId: str
    requestId: str
    submissionId: str
    kind: str
    outcome: str | None
    processedAt: str


class RefusedCallback(TypedDict):
    """A message that was no callback: never its bytes, which nobody vouches for."""

    fingerprint: str
    requestId: str | None
    submissionId: str | None
    reason: str
    sizeBytes: int
    times: int
    firstAt: str
    lastAt: str


class RefusedCallbacks(TypedDict):
    items: list[RefusedCallback]
    nextCursor: str | None


class SubmissionAct(TypedDict):
    at: str
    actor: str
    action: str


class WholeSubmission(SubmissionRow):
    payload: WritingWork | SpeakingWork
    attempts: list[AttemptRow]
    callbacks: list[CallbackRow]
    refusedCallbacks: list[RefusedCallback]
    audit: list[SubmissionAct]


class QueuedLetterRow(TypedDict):
    """A message of `grading.dlq`, and what was done about it."""

    id: str
    state: LetterState
    requestId: str | None
    submissionId: str | None
    failureReason: str
    attemptsMade: int | None
    lastError: str
    timestamp: str | None
    stage: str | None
    errorClass: str | None
    actedAt: str | None
    actedBy: str | None
    reason: str | None


class QueuedLetterRows(TypedDict):
    items: list[QueuedLetterRow]


class WholeQueuedLetter(QueuedLetterRow):
    originalMessage: Any
    originalEncoding: Literal["json", "text", "base64"]
    originalBytes: int


class RecordingKept(TypedDict):
    """`audioUrl` is how a submission names it."""

    audioUrl: str
    durationSeconds: int

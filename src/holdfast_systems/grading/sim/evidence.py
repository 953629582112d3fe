"""What the predicates of grading look at: the lines of both databases, the letters that were sent, what people were
told. No line of the code under test writes any of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast_proof.history import HistoryLine, RunHistory
from holdfast_systems.grading.contract import CALLBACK_QUEUE, DEAD_LETTER_QUEUE
from holdfast_systems.grading.sim.apps import WORK
from holdfast_systems.grading.sim.strangers import PoisonMessage
from holdfast_systems.grading.sim.wishes import AnswerToLearner, GradingWish

if TYPE_CHECKING:
    from holdfast_systems.grading.sim.world import GradingWorld

WATCHED = {
    "main": {
        "submitted": (
            "INSERT ON submissions",
            "new.id",
            "new.user_id, new.request_id, new.created_at, new.deadline_at, new.payload",
        ),
        "submission": (
            "UPDATE ON submissions",
            "new.id",
            "old.status, new.status, old.step, new.step, old.progress, new.progress, old.ai_result, new.ai_result, "
            "old.is_late, new.is_late, old.failure_reason, new.failure_reason, old.final_result, new.final_result, "
            "old.finished_at, new.finished_at, old.claimed_by, new.claimed_by, new.reviewed_by, old.request_id, "
            "new.request_id, new.attempt, new.deadline_at",
        ),
        "history": (
            "INSERT ON submission_attempts",
            "new.request_id",
            "new.submission_id, new.attempt, new.failure_reason, new.ai_result",
        ),
        "superseded": (
            "UPDATE ON submission_attempts",
            "new.request_id",
            "old.ai_result, new.ai_result, new.is_late, new.deadline_at",
        ),
        "callback": (
            "INSERT ON processed_callbacks",
            "new.event_id",
            "new.request_id, new.submission_id, new.kind, new.fingerprint",
        ),
        "noted": ("UPDATE ON processed_callbacks", "new.event_id", "new.outcome"),
        "letter": ("INSERT ON grading_letters", "new.id", "new.state"),
        "spoiled": ("INSERT ON refused_callbacks", "new.fingerprint", "new.reason"),
        "said": ("INSERT ON submission_events", "new.submission_id", "new.event_id, new.seq, new.kind"),
    },
    "service": {
        "request": ("INSERT ON grading_jobs", "new.request_id", "new.job_id, new.submission_id"),
        "grading": (
            "UPDATE ON grading_jobs",
            "new.request_id",
            "old.status, new.status, old.answer, new.answer, old.repeats, new.repeats, old.told_provider, "
            "new.told_provider, old.told_generation, new.told_generation",
        ),
    },
}


class Move(NamedTuple):
    """One write to a submission."""

    old_status: str
    status: str
    old_step: str | None
    step: str | None
    old_progress: float | None
    progress: float | None
    old_result: str | None
    result: str | None
    old_is_late: int
    is_late: int
    old_reason: str | None
    reason: str | None
    old_final: str | None
    final: str | None
    old_finished_at: int | None
    finished_at: int | None
    old_claimed_by: str | None
    claimed_by: str | None
    reviewed_by: str | None
    old_request_id: str
    request_id: str
    attempt: int
    deadline_at: int

    @property
    def begins(self) -> bool:
        """Whether it is the beginning of the next attempt."""
        return self.request_id != self.old_request_id or (self.old_status, self.status) == ("FAILED", "PENDING")


class Graded(NamedTuple):
    """One write to a request's row in the grading service."""

    old_status: str
    status: str
    old_answer: str | None
    answer: str | None
    old_repeats: int
    repeats: int
    old_provider: str
    provider: str
    old_generation: int
    generation: int

    @property
    def finishes(self) -> bool:
        return self.repeats == self.old_repeats and (self.old_provider, self.old_generation) == (
            self.provider,
            self.generation,
        )


def work_of(text: str) -> str:
    """The mark that a piece of work carries from the learner to the model."""
    found = WORK.search(text.encode())
    return found.group().decode() if found else ""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A submission as it was stored."""

    id: str
    user: str
    request_id: str
    created_at: int
    deadline_at: int
    payload: dict[str, Any]
    line: HistoryLine

    @property
    def work(self) -> str:
        return work_of(json.dumps(self.payload))


@dataclass(slots=True)
class Evidence:
    """One seed, seen from outside."""

    history: RunHistory
    submissions: dict[str, Submitted]
    requests: dict[str, HistoryLine]
    callbacks: dict[str, dict[str, Any]]
    ours: dict[str, list[dict[str, Any]]]
    letters: list[dict[str, Any]]
    laid: dict[str, str]
    """How the main app knows the letter in each message of the grading service's outbox."""
    wishes: Sequence[GradingWish]
    answered: Sequence[AnswerToLearner]
    poisons: Sequence[PoisonMessage]
    garbage: dict[str, str]
    resent: dict[str, str]
    events: dict[str, str]
    carried: dict[str, str]
    """The request in each message of the main app's outbox."""
    cases: dict[str, str]
    """The request that each case of the grading service names, by its job."""
    audited: int
    """How many resubmissions the audit knows of."""
    by_request: dict[str, Submitted] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_request = {one.request_id: one for one in self.submissions.values()}
        for line in self.history.of("submission"):
            self.by_request.setdefault(Move(*line.data).request_id, self.submissions[line.id])

    def job_of(self, request_id: str) -> str | None:
        line = self.requests.get(request_id)
        return line.data[0] if line else None


def gather(world: GradingWorld, history: RunHistory) -> Evidence:
    """Collect it, once the seed is over."""
    callbacks: dict[str, dict[str, Any]] = dict(world.strangers.said)
    ours: dict[str, list[dict[str, Any]]] = {}
    letters, laid = [], {}
    rows = world.query("SELECT id, message_type, payload FROM holdfast_outbox ORDER BY seq", database="service")
    for row in rows:
        tree = json.loads(row["payload"])
        if row["message_type"] == CALLBACK_QUEUE:
            callbacks[hashlib.sha256(row["payload"].encode()).hexdigest()] = tree
            ours.setdefault(tree["requestId"].lower(), []).append(tree)
        elif row["message_type"] == DEAD_LETTER_QUEUE:
            letters.append(tree)
            laid[row["id"]] = hashlib.sha256(f"{row['id']}\n{row['payload']}".encode()).hexdigest()[:32]
    sent = world.query("SELECT id, payload FROM holdfast_outbox ORDER BY seq")
    named = world.query("SELECT job_id, request_id FROM holdfast_dead_letters", database="service")
    acts = world.query("SELECT COUNT(*) AS acts FROM holdfast_audit WHERE action = 'submission.resubmitted'")
    return Evidence(
        history=history,
        carried={row["id"]: json.loads(row["payload"])["requestId"] for row in sent},
        cases={row["job_id"]: row["request_id"] for row in named},
        audited=acts[0]["acts"],
        submissions={line.id: _submitted(line) for line in history.of("submitted")},
        requests={line.id: line for line in history.of("request")},
        callbacks=callbacks,
        ours=ours,
        letters=letters,
        laid=laid,
        wishes=world.wishes,
        answered=world.people.answered,
        poisons=world.strangers.poisons,
        garbage=world.strangers.garbage,
        resent=world.strangers.resent,
        events=world.strangers.events,
    )


def _submitted(line: HistoryLine) -> Submitted:
    user, request_id, created_at, deadline_at, payload = line.data
    return Submitted(line.id, user, request_id, created_at, deadline_at, json.loads(payload), line)

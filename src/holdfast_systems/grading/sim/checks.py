"""Predicates about submissions: what may change one, and what must. An independent reading of SPEC G8, G9 and G12: it
follows every write to a submission with the callback in whose transaction it stands, and says what should have come
of it, without asking the production's own rules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from holdfast.operator.finding import Violation
from holdfast_proof.history import HistoryLine
from holdfast_systems.grading.sim.evidence import Evidence, Move, Submitted, work_of

LIVE = ("PENDING", "PROCESSING")
FINAL = ("COMPLETED", "FAILED")
STEPS = (None, "PROCESSING", "ANALYZING", "GRADING")
EDGES = {
    *((old, new) for old in LIVE for new in ("PROCESSING", "REVIEW_REQUIRED", *FINAL)),
    ("REVIEW_REQUIRED", "REVIEW_REQUIRED"),
    ("REVIEW_REQUIRED", "COMPLETED"),
    ("COMPLETED", "COMPLETED"),
    ("FAILED", "FAILED"),
    ("FAILED", "COMPLETED"),
    ("FAILED", "REVIEW_REQUIRED"),
    ("FAILED", "PENDING"),
}


@dataclass(slots=True)
class SubmissionState:
    """A submission as the lines so far have left it."""

    request_id: str = ""
    deadline_at: int = 0
    status: str = "PENDING"
    reason: str | None = None
    has_result: bool = False
    is_late: bool = False


def check_submissions(evidence: Evidence) -> Iterator[Violation]:
    """G8, G9, G12: every callback does what it must, and nothing else changes a submission but the clock and people."""
    states: dict[str, SubmissionState] = {}
    callback: HistoryLine | None = None
    before = SubmissionState()
    for line in evidence.history.of("submitted", "submission", "callback", "noted"):
        if line.what == "submitted":
            one = evidence.submissions[line.id]
            states[line.id] = SubmissionState(one.request_id, one.deadline_at)
        elif line.what == "callback":
            callback = line
            known = evidence.by_request.get(line.data[0])
            before = replace(states[known.id]) if known and known.id in states else SubmissionState()
        elif line.what == "submission":
            move = Move(*line.data)
            yield from _judge_move(evidence.submissions[line.id], move)
            if callback is None or callback.host != line.host:
                yield from _judge_alone(evidence.submissions[line.id], move, line)
            states[line.id] = SubmissionState(
                move.request_id, move.deadline_at, move.status, move.reason, move.result is not None, bool(move.is_late)
            )
        elif callback is None or callback.id != line.id:
            yield Violation("G9", f"The callback {line.id} was handled again, by {line.host}.")
        else:
            yield from _judge_callback(evidence, callback, before, states, line.data[0])
            callback = None


def _judge_move(one: Submitted, move: Move) -> Iterator[Violation]:
    """G9: no write leaves an end, takes a step back, or replaces a result."""
    if (move.old_status, move.status) not in EDGES:
        yield Violation("G9", f"Submission {one.id} went {move.old_status} -> {move.status}.")
    if move.begins:
        return  # check_attempts looks at it
    if STEPS.index(move.step) < STEPS.index(move.old_step) or (move.progress or 0.0) < (move.old_progress or 0.0):
        was, now = f"{move.old_step} {move.old_progress}", f"{move.step} {move.progress}"
        yield Violation("G9", f"Submission {one.id} went back from {was} to {now}.")
    if move.old_result is not None and move.result != move.old_result:
        yield Violation("G9", f"The result of submission {one.id} was replaced.")
    frozen = (move.old_step, move.old_progress, move.old_reason, move.old_final, move.old_finished_at)
    if move.old_status in FINAL and move.status == move.old_status:
        if frozen != (move.step, move.progress, move.reason, move.final, move.finished_at):
            yield Violation("G9", f"Submission {one.id} was {move.old_status} and was changed.")
        if move.old_result is not None or move.result is None:
            yield Violation(
                "G12", f"Submission {one.id} was {move.old_status} and was written to without a late result."
            )
    if move.old_status == "FAILED" != move.status and (move.old_reason == "TIMEOUT" or move.reason is not None):
        yield Violation("G12", f"Submission {one.id} had failed ({move.old_reason}) and is {move.status}.")


def _judge_alone(one: Submitted, move: Move, line: HistoryLine) -> Iterator[Violation]:
    """G12: without a callback, a submission is failed by the clock, or handled by an instructor (G11)."""
    if move.status == "FAILED" and move.old_status in LIVE:
        if move.reason != "TIMEOUT" or line.wall_ms <= move.deadline_at:
            left_ms = move.deadline_at - line.wall_ms
            yield Violation("G12", f"Submission {one.id} failed ({move.reason}) {left_ms} ms before its deadline.")
        return
    if move.begins:
        return
    if move.old_status != "REVIEW_REQUIRED" or not line.host.startswith("instructor"):
        text = f"Submission {one.id} went {move.old_status} -> {move.status} by {line.host}, and no callback said so."
        yield Violation("G12" if move.old_status == "REVIEW_REQUIRED" else "G9", text)
        return
    if move.old_claimed_by and move.claimed_by and move.old_claimed_by != move.claimed_by:
        yield Violation("G11", f"Submission {one.id} was taken from {move.old_claimed_by} by {move.claimed_by}.")
    if move.status == "COMPLETED" and move.reviewed_by != move.old_claimed_by:
        yield Violation("G11", f"Submission {one.id} was reviewed by {move.reviewed_by}, who had not claimed it.")


def _judge_callback(
    evidence: Evidence, line: HistoryLine, before: SubmissionState, states: dict[str, SubmissionState], outcome: str
) -> Iterator[Violation]:
    request_id, submission_id, kind, fingerprint = line.data
    one, tree = evidence.by_request.get(request_id), evidence.callbacks.get(fingerprint)
    if tree is None:
        yield Violation("G9", f"The callback {line.id} is recorded as handled and nobody sent it.")
        return
    if one is None or submission_id not in ("", one.id):
        if outcome not in ("unknown", "mismatched"):
            yield Violation("G9", f"The callback {line.id} is nobody's and was {outcome}.")
        return
    found = states[one.id]
    if before.request_id != request_id:
        if outcome != "superseded" or found != before:
            yield Violation("G9", f"The callback {line.id} of an older attempt of {one.id} was {outcome}.")
        return
    promise, wanted = _expected(before, tree, line.wall_ms > before.deadline_at)
    if found != wanted:
        what = f"{kind} callback {line.id} at {before.status}"
        yield Violation(promise, f"After the {what} submission {one.id} is {_told(found)}, not {_told(wanted)}.")


def _expected(before: SubmissionState, tree: dict[str, Any], is_over: bool) -> tuple[str, SubmissionState]:
    """What a callback must leave behind, and the promise that says so."""
    after, live = replace(before), before.status in LIVE
    if tree["kind"] == "completed":
        if before.has_result:
            return "G9", after
        after.has_result = True
        recovers = before.status == "FAILED" and before.reason != "TIMEOUT"
        if (live or recovers) and not is_over:
            after.status = "REVIEW_REQUIRED" if tree["data"]["result"]["reviewRequired"] else "COMPLETED"
            after.reason = None
            return "G9", after
        after.is_late = is_over
    if live and is_over:
        after.status, after.reason = "FAILED", "TIMEOUT"
        return "G12", after
    if not live:
        return "G12" if tree["kind"] == "completed" else "G9", after
    if tree["kind"] == "error" and not tree["data"]["error"]["retryable"]:
        code = tree["data"]["error"]["code"]
        after.status, after.reason = "FAILED", "SERVICE_TIMEOUT" if code == "TIMEOUT" else code
        return "G8", after
    after.status = "PROCESSING"
    return "G8" if tree["kind"] == "error" else "G9", after


def _told(state: SubmissionState) -> str:
    result = " with a late result" if state.is_late else " with a result" if state.has_result else ""
    return f"{state.status}{f' ({state.reason})' if state.reason else ''}{result}"


def check_stories(evidence: Evidence) -> Iterator[Violation]:
    """G12, G13: everybody is told each end, once and in order; and there is an end, or a person who owes one."""
    last: dict[str, str] = dict.fromkeys(evidence.submissions, "PENDING")
    ends: dict[str, list[str]] = {}
    for line in evidence.history.of("submission"):
        last[line.id] = line.data[1]
        if line.data[1] in FINAL and line.data[0] != line.data[1]:
            ends.setdefault(line.id, []).append(f"grading.{line.data[1].lower()}")
    stories: dict[str, list[HistoryLine]] = {}
    for line in evidence.history.of("said"):
        stories.setdefault(line.id, []).append(line)
    for submission_id, status in last.items():
        if status in LIVE:
            yield Violation("G12", f"Submission {submission_id} is {status} at the end of all.")
        told = [line.data[2] for line in stories.get(submission_id, ())]
        wanted = ends.get(submission_id, [])
        if [kind for kind in told if kind in ("grading.completed", "grading.failed")] != wanted or (
            status in FINAL and told[-1:] != wanted[-1:]
        ):
            yield Violation("G13", f"Submission {submission_id} is {status} and its learner was told {told}.")


def check_acceptance(evidence: Evidence) -> Iterator[Violation]:
    """G1, G2: what a learner was told exists, once per key, with its request in the outbox of the same commit."""
    requests: dict[str, list[HistoryLine]] = {}
    for line in evidence.history.of("told"):
        if line.data[2] == "grading.request":
            requests.setdefault(line.data[0], []).append(line)
    for one in evidence.submissions.values():
        sent = {(line.host, line.at_ms): line.id for line in requests.pop(one.id, [])}
        begun = beginnings(evidence, one)
        if sent.keys() != begun.keys() or len(begun) != len(set(begun.values())):
            yield Violation(
                "G1", f"Submission {one.id} has {len(sent)} requests in the outbox, not one of each commit."
            )
        elif any(evidence.carried.get(message) != begun[place] for place, message in sent.items()):
            yield Violation("G1", f"Submission {one.id} has a request in the outbox that is not its attempt's own.")
    for orphan in requests:
        yield Violation("G1", f"A request for submission {orphan} is in the outbox, but there is no such submission.")
    yield from _judge_keys(evidence)


def beginnings(evidence: Evidence, one: Submitted) -> dict[tuple[str, int], str]:
    """The request id of each attempt of a submission, by who began it and when."""
    begun = {(one.line.host, one.line.at_ms): one.request_id}
    for line in evidence.history.of("submission"):
        if line.id == one.id and (move := Move(*line.data)).begins:
            begun[line.host, line.at_ms] = move.request_id
    return begun


def _judge_keys(evidence: Evidence) -> Iterator[Violation]:
    slas = {work_of(_canonical(wish.payload)): wish.sla_s for wish in evidence.wishes}
    works: dict[str, Submitted] = {}
    for one in evidence.submissions.values():
        first = works.setdefault(one.work, one)
        if first is not one:
            yield Violation("G1", f"One key has two submissions, {first.id} and {one.id}.")
        if one.deadline_at - one.created_at != round(slas[one.work] * 1_000):
            yield Violation("G2", f"Submission {one.id} has {one.deadline_at - one.created_at} ms until its deadline.")
    for told in evidence.answered:
        stored = works.get(work_of(told.payload))
        if told.id is not None and (stored is None or (stored.id, stored.request_id) != (told.id, told.request_id)):
            yield Violation("G1", f"A learner was told of submission {told.id}, which is not the one of its key.")
        if stored is not None and (told.id is None) != (_canonical(stored.payload) != told.payload):
            said = "refused" if told.id is None else "accepted"
            yield Violation("G1", f"The key {told.key} was {said}, against what is stored under it ({stored.id}).")


def _canonical(payload: dict[str, Any]) -> str:
    return json.dumps(payload, sort_keys=True)

"""Predicates about resubmissions: only a person begins the next attempt, of what has failed, with all that belongs to
it; and an attempt that is over only learns of the result that came for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from holdfast.operator.finding import Violation
from holdfast_proof.history import HistoryLine
from holdfast_systems.grading.sim.evidence import Evidence, Move
from holdfast_systems.grading.sim.people import RESUBMITTED_SLA_S


def check_attempts(evidence: Evidence) -> Iterator[Violation]:
    """G1: attempt + 1, a request and a deadline of its own, the history of the one before; audited, by a person."""
    kept = {line.id: line for line in evidence.history.of("history")}
    numbers: Counter[str] = Counter()
    begun = 0
    for line in evidence.history.of("submission"):
        move = Move(*line.data)
        if not move.begins:
            continue
        begun += 1
        numbers[line.id] += 1
        yield from _judge_beginning(line, move, numbers[line.id] + 1)
        past = kept.get(move.old_request_id)
        if past is None or (past.host, past.at_ms) != (line.host, line.at_ms):
            yield Violation("G1", f"Attempt {move.attempt} of {line.id} began and the one before it was not kept.")
        elif tuple(past.data) != (line.id, move.attempt - 1, move.old_reason, move.old_result):
            yield Violation("G1", f"The history of attempt {move.attempt - 1} of {line.id} says something else.")
    if evidence.audited != begun:
        yield Violation("G1", f"{begun} attempts were begun by people and the audit knows of {evidence.audited}.")


def _judge_beginning(line: HistoryLine, move: Move, number: int) -> Iterator[Violation]:
    if (move.old_status, move.status) != ("FAILED", "PENDING") or move.request_id == move.old_request_id:
        yield Violation(
            "G1", f"Submission {line.id} began again: {move.old_status} -> {move.status}, {move.request_id}."
        )
    if move.attempt != number or not line.host.startswith("resubmitter"):
        yield Violation("G1", f"Attempt {move.attempt} of {line.id} was begun by {line.host}; it should be {number}.")
    if (move.step, move.progress, move.result, move.final, move.is_late) != (None, None, None, None, 0):
        yield Violation("G1", f"Attempt {move.attempt} of {line.id} began with what the one before it left.")
    if move.deadline_at - line.wall_ms != round(RESUBMITTED_SLA_S * 1_000):
        left_ms = move.deadline_at - line.wall_ms
        yield Violation("G2", f"Attempt {move.attempt} of {line.id} has {left_ms} ms until its deadline.")


def check_superseded(evidence: Evidence) -> Iterator[Violation]:
    """G9, G12: an older attempt keeps the first result that came for it, late by its own deadline."""
    for line in evidence.history.of("superseded"):
        old_result, result, is_late, deadline_at = line.data
        if old_result is not None and result != old_result:
            yield Violation("G9", f"The result of the older request {line.id} was replaced.")
        elif old_result is None and bool(is_late) != (line.wall_ms > deadline_at):
            yield Violation("G12", f"The result of the older request {line.id} has isLate = {is_late}.")

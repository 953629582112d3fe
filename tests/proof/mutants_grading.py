"""Planted bugs about submissions, and the table of all bugs planted in grading. Production code holds none of this."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from holdfast.tables import events
from holdfast_systems.grading import attempts, submissions, sweep, transitions
from holdfast_systems.grading.transitions import SubmissionChange, SubmissionEvent
from tests.proof import mutants_floors, mutants_grading_messages
from tests.proof.plant import Mutant, respelled, swapped

STATES = ("PENDING", "PROCESSING", "REVIEW_REQUIRED", "COMPLETED", "FAILED")
ANY_EDGE = frozenset((old, new) for old in STATES for new in STATES)

# Submissions


@contextmanager
def progress_after_terminal() -> Iterator[None]:
    """Progress is written down whenever it comes."""
    intact = transitions._progress

    def always(before: Any, callback: Any) -> Any:
        if before.status in transitions.LIVE:
            return intact(before, callback)
        after = replace(before, step=callback.data.status, progress=1.0)
        return SubmissionChange(after, SubmissionEvent("grading.progress", {"status": callback.data.status}))

    with swapped(transitions, "_progress", always):
        yield


@contextmanager
def progress_goes_backwards() -> Iterator[None]:
    """The last message wins, not the furthest step."""
    with swapped(transitions, "_advances", lambda before, step, progress: True):
        yield


@contextmanager
def sweep_touches_review_required() -> Iterator[None]:
    """The deadline also takes what waits for a person."""

    def expire(before: Any, now: int) -> Any:
        return transitions._failed(before, transitions.TIMEOUT, now)

    wider = ("status IN ('PENDING', 'PROCESSING')", "status IN ('PENDING', 'PROCESSING', 'REVIEW_REQUIRED')")
    with (
        respelled(submissions.sql, "overdue", wider),
        swapped(sweep, "expire", expire),
        swapped(submissions, "EDGES", ANY_EDGE),
    ):
        yield


@contextmanager
def sweep_comes_too_early() -> Iterator[None]:
    """A deadline is over ten seconds before it is."""

    def expire(before: Any, now: int) -> Any:
        return transitions._failed(before, transitions.TIMEOUT, now)

    early = ("deadline_at < :now", "deadline_at - 10000 < :now")
    with respelled(submissions.sql, "overdue", early), swapped(sweep, "expire", expire):
        yield


@contextmanager
def late_result_flips_state() -> Iterator[None]:
    """A result that comes after the deadline undoes a failure that is no timeout."""

    def may_recover(before: Any, received_at: int) -> bool:
        return bool(before.status == "FAILED" and before.failure_reason != transitions.TIMEOUT)

    with swapped(transitions, "_may_recover", may_recover):
        yield


@contextmanager
def timeout_flips() -> Iterator[None]:
    """A result that comes after the timeout completes the submission after all."""
    intact = transitions._may_recover

    def may_recover(before: Any, received_at: int) -> bool:
        return bool(before.failure_reason == transitions.TIMEOUT) or intact(before, received_at)

    with swapped(transitions, "_may_recover", may_recover):
        yield


@contextmanager
def recovery_ignored() -> Iterator[None]:
    """A final error stays the end, also when a replay brings the result in time."""
    with swapped(transitions, "_may_recover", lambda before, received_at: False):
        yield


@contextmanager
def everything_after_the_end_is_late() -> Iterator[None]:
    """A result in time that follows a failure is filed as late."""
    intact = transitions._completed

    def filed(before: Any, result: Any, received_at: int) -> Any:
        if before.status != "FAILED" or before.ai_result is not None:
            return intact(before, result, received_at)
        return SubmissionChange(replace(before, ai_result=result.model_dump(mode="json", by_alias=True), is_late=True))

    with swapped(transitions, "_completed", filed):
        yield


# Resubmissions


@contextmanager
def older_request_changes_the_present_attempt() -> Iterator[None]:
    """A callback is matched by any request that the submission ever had."""
    intact = submissions.lock_by_request

    async def lock(tx: Any, request_id: str) -> Any:
        rows = await tx.rows(attempts.sql.lock, request_id=request_id)
        return await (submissions.lock(tx, rows[0]["submission_id"]) if rows else intact(tx, request_id))

    with swapped(submissions, "lock_by_request", lock):
        yield


@contextmanager
def resubmitted_under_the_old_request() -> Iterator[None]:
    """The next attempt asks again with the request id of the one before."""
    same = ("request_id = :request_id", "request_id = CASE WHEN :request_id = '' THEN '' ELSE request_id END")
    with respelled(attempts.sql, "begin", same):
        yield


@contextmanager
def history_is_forgotten() -> Iterator[None]:
    """What the attempt before left is overwritten by the next."""
    with respelled(attempts.sql, "keep", ("FROM submissions WHERE", "FROM submissions WHERE 1 = 0 AND")):
        yield


@contextmanager
def anything_may_be_resubmitted() -> Iterator[None]:
    """A live attempt is cut short by the next."""

    def again(before: Any, deadline_at: int) -> Any:
        return SubmissionChange(
            transitions.Submission("PENDING", deadline_at), SubmissionEvent("grading.progress", {"status": "PENDING"})
        )

    wider = ("AND status = 'FAILED' AND", "AND")
    kept = (("finished_at,\n       failure_reason", "COALESCE(finished_at, 0),\n       COALESCE(failure_reason, '')"),)
    with (
        swapped(transitions, "resubmit", again),
        respelled(attempts.sql, "begin", wider),
        respelled(attempts.sql, "keep", *kept),
    ):
        yield


@contextmanager
def deadline_left_to_the_sweep() -> Iterator[None]:
    """A callback does not look at the clock."""
    with swapped(transitions, "expire", lambda before, now: None):
        yield


@contextmanager
def final_error_leaves_processing() -> Iterator[None]:
    """Every error is taken for one that passes."""
    intact = transitions._error

    def hopeful(before: Any, callback: Any, received_at: int) -> Any:
        error = callback.data.error.model_copy(update={"retryable": True})
        data = callback.data.model_copy(update={"error": error})
        return intact(before, callback.model_copy(update={"data": data}), received_at)

    with swapped(transitions, "_error", hopeful):
        yield


@contextmanager
def passing_error_is_final() -> Iterator[None]:
    """An open breaker fails the submission."""

    def gloomy(before: Any, callback: Any, received_at: int) -> Any:
        if before.status not in transitions.LIVE:
            return None
        return transitions._failed(before, callback.data.error.code, received_at)

    with swapped(transitions, "_error", gloomy):
        yield


@contextmanager
def second_result_wins() -> Iterator[None]:
    """A result is known by its event, not by its request."""
    intact = transitions._completed

    def again(before: Any, result: Any, received_at: int) -> Any:
        return intact(replace(before, ai_result=None), result, received_at)

    with swapped(transitions, "_completed", again):
        yield


@contextmanager
def claim_taken_over() -> Iterator[None]:
    """The last instructor to click has the submission."""
    intact = transitions.claim

    def grab(before: Any, instructor: str, now: int) -> Any:
        return intact(replace(before, claimed_by=None), instructor, now)

    with swapped(transitions, "claim", grab):
        yield


@contextmanager
def progress_noted_by_every_attempt() -> Iterator[None]:
    """Whoever was held, or tries again, reports the same progress again."""

    async def append_always(tx: Any, job_id: str, attempt: int, type: str, data: str, now: int) -> bool:
        await events.append(tx, [(job_id, attempt, type, data)], now)
        return True

    with swapped(events, "append_once", append_always):
        yield


# A bug that one seed in four or more shows has 60 seeds, a rarer one 150 or more.
MUTANTS = (
    Mutant(
        mutants_floors.looks_lower_nothing,
        ("L1", "L2", "G5", "G14"),
        300,
        elsewhere="tests/horizon/test_below.py::test_a_look_that_takes_long_is_made_beside_the_claims",
    ),
    Mutant(progress_after_terminal, ("G9",), 60),
    Mutant(progress_goes_backwards, ("G9",), 60),
    Mutant(progress_noted_by_every_attempt, ("S28",), 60),
    Mutant(sweep_touches_review_required, ("G12",), 150),
    Mutant(sweep_comes_too_early, ("G12",), 60),
    Mutant(late_result_flips_state, ("G9", "G12"), 150),
    Mutant(timeout_flips, ("G12",), 60),
    Mutant(recovery_ignored, ("G9",), 60),
    Mutant(everything_after_the_end_is_late, ("G9",), 60),
    Mutant(older_request_changes_the_present_attempt, ("G9",), 60),
    Mutant(resubmitted_under_the_old_request, ("G1",), 60),
    Mutant(history_is_forgotten, ("G1",), 60),
    Mutant(anything_may_be_resubmitted, ("G1",), 60),
    Mutant(deadline_left_to_the_sweep, ("G12",), 60),
    Mutant(final_error_leaves_processing, ("G8",), 60),
    Mutant(passing_error_is_final, ("G8",), 60),
    Mutant(second_result_wins, ("G9",), 60),
    Mutant(claim_taken_over, ("G11",), 150),
    Mutant(mutants_grading_messages.callback_acked_before_commit, ("S16",), 60),
    Mutant(mutants_grading_messages.no_inbox_of_callbacks, ("G9",), 60),
    Mutant(mutants_grading_messages.callback_marked_before_its_effects, ("G8", "G9", "G12"), 60),
    Mutant(mutants_grading_messages.request_acked_before_commit, ("S16",), 60),
    Mutant(mutants_grading_messages.client_retries_by_itself, ("G4",), 60),
    Mutant(mutants_grading_messages.bad_audio_tried_again, ("G6",), 150),
    Mutant(mutants_grading_messages.duplicate_request_graded_again, ("G4",), 60),
    Mutant(mutants_grading_messages.repeated_request_not_answered, ("G14",), 60),
    Mutant(mutants_grading_messages.refused_twice, ("G5",), 150),
    Mutant(mutants_grading_messages.callbacks_outside_the_transaction, ("G14",), 60),
    Mutant(mutants_grading_messages.callbacks_overtake, ("K10",), 60),
    Mutant(mutants_grading_messages.breaker_floods, ("G7",), 150),
    Mutant(mutants_grading_messages.dead_letters_forgotten, ("G5", "G6"), 60),
    Mutant(mutants_grading_messages.key_ignored_under_concurrency, ("G1",), 60),
    Mutant(mutants_grading_messages.request_outside_the_transaction, ("G1",), 60),
)

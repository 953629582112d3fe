"""Planted bugs about submissions, and the table of all bugs planted in grading. Production code holds none of this."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from holdfast_systems.grading import submissions, sweep, transitions
from holdfast_systems.grading.transitions import Change, Event
from tests.proof import mutants_grading_messages
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
        return Change(after, Event("grading.progress", {"status": callback.data.status}))

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

    early = ("deadline_at < :now", "deadline_at < :now + 10000")
    with respelled(submissions.sql, "overdue", early), swapped(sweep, "expire", expire):
        yield


@contextmanager
def late_result_flips_state() -> Iterator[None]:
    """A result that comes after the timeout completes the submission after all."""
    intact = transitions._completed

    def flip(before: Any, result: Any, received_at: int) -> Any:
        if before.status != "FAILED" or before.ai_result is not None:
            return intact(before, result, received_at)
        revived = replace(before, status="PROCESSING", failure_reason=None, finished_at=None, deadline_at=received_at)
        return intact(revived, result, received_at)

    with swapped(transitions, "_completed", flip), swapped(submissions, "EDGES", ANY_EDGE):
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


# A bug that one seed in four or more shows has 60 seeds, a rarer one 150.
MUTANTS = (
    Mutant(progress_after_terminal, ("G9",), 60),
    Mutant(progress_goes_backwards, ("G9",), 60),
    Mutant(sweep_touches_review_required, ("G12",), 150),
    Mutant(sweep_comes_too_early, ("G12",), 60),
    Mutant(late_result_flips_state, ("G9", "G12"), 60),
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

"""The life of a submission: any callbacks, in any order, at any time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.systems.grading.callbacks_made import completed, error, progress, result

from holdfast_systems.grading.contract import Callback
from holdfast_systems.grading.transitions import (
    EDGES,
    LIVE,
    STEPS,
    Submission,
    TransitionRefusal,
    apply,
    claim,
    expire,
    release,
    resubmit,
    review,
)

REQUEST, SUBMISSION = "6f1a7f5e-7c55-4f0e-9d3a-0a4d4b7c9a10", "s-1"
DEADLINE = 1_000_000
NEW = Submission("PENDING", DEADLINE)

callbacks = st.one_of(
    st.builds(
        lambda status, share: progress(REQUEST, SUBMISSION, status, share),
        st.sampled_from(STEPS),
        st.none() | st.floats(0, 1),
    ),
    st.builds(
        lambda score, confidence: completed(REQUEST, SUBMISSION, result(score, confidence)),
        st.floats(0, 10),
        st.integers(0, 100),
    ),
    st.builds(
        lambda code, retryable: error(REQUEST, SUBMISSION, code, retryable=retryable),
        st.sampled_from(["LLM_TIMEOUT", "STT_FAIL", "CIRCUIT_OPEN"]),
        st.booleans(),
    ),
)
receipts = st.lists(st.tuples(callbacks, st.integers(DEADLINE - 5, DEADLINE + 5)), max_size=12)


def story(received: list[tuple[Callback, int]]) -> list[Submission]:
    """Every state a submission passes through; receipts come in the order of time."""
    states = [NEW]
    for callback, at in sorted(received, key=lambda one: one[1]):
        change = apply(states[-1], callback, at)
        states.append(states[-1] if change is None else change.after)
    return states


@pytest.mark.spec("G9", "K15")
@given(receipts)
def test_only_legal_edges_are_taken_and_the_end_stays_the_end(received: list[tuple[Callback, int]]) -> None:
    states = story(received)
    for before, after in pairwise(states):
        assert before.status == after.status or (before.status, after.status) in EDGES
        if before.status == "COMPLETED" or (before.status, after.status) == ("FAILED", "FAILED"):
            assert replace(after, ai_result=None, is_late=False) == replace(before, ai_result=None, is_late=False)
        if before.status == "FAILED" != after.status:
            assert before.failure_reason != "TIMEOUT" and not after.is_late and after.failure_reason is None


@pytest.mark.spec("G9", "002.20", "003.11")
@given(receipts)
def test_progress_never_moves_backwards(received: list[tuple[Callback, int]]) -> None:
    states = story(received)
    for before, after in pairwise(states):
        assert (after.progress or 0) >= (before.progress or 0)
        assert _step(after) >= _step(before)


def _step(one: Submission) -> int:
    return -1 if one.step is None else STEPS.index(one.step)


@pytest.mark.spec("G9")
@given(receipts)
def test_a_repeated_callback_changes_nothing(received: list[tuple[Callback, int]]) -> None:
    once = story(received)[-1]
    twice = story([pair for pair in received for _ in range(2)])[-1]
    assert replace(once, finished_at=None) == replace(twice, finished_at=None)


@pytest.mark.spec("G9")
@given(receipts)
def test_the_first_final_result_stands_whatever_its_event_id(received: list[tuple[Callback, int]]) -> None:
    results = [state.ai_result for state in story(received) if state.ai_result is not None]
    assert all(one == results[0] for one in results)


@pytest.mark.spec("G12", "K14", "000.36")
@given(receipts)
def test_a_deadline_is_compared_with_the_time_of_receipt_only(received: list[tuple[Callback, int]]) -> None:
    """Whether the sweep ran before a late callback or not, the submission ends the same."""
    swept = NEW
    for callback, at in sorted(received, key=lambda one: one[1]):
        expired = expire(swept, at)
        swept = expired.after if expired else swept
        change = apply(swept, callback, at)
        swept = change.after if change else swept
    assert swept == story(received)[-1]


@pytest.mark.spec("G12", "K14")
@given(callbacks, st.sampled_from(["PENDING", "PROCESSING"]))
def test_nothing_that_comes_late_completes_a_submission(callback: Callback, status: str) -> None:
    change = apply(replace(NEW, status=status), callback, DEADLINE + 1)  # type: ignore[arg-type]
    assert change is not None and (change.after.status, change.after.failure_reason) == ("FAILED", "TIMEOUT")
    assert change.after.is_late == (callback.kind == "completed") == (change.after.ai_result is not None)
    assert change.after.final_result is None
    assert change.event is not None and change.event.name == "grading.failed"


@pytest.mark.spec("G12", "K14", "000.36")
def test_the_instant_of_the_deadline_is_in_time() -> None:
    change = apply(NEW, completed(REQUEST, SUBMISSION), DEADLINE)
    assert change is not None and change.after.status == "COMPLETED"
    assert expire(NEW, DEADLINE) is None


@pytest.mark.spec("G12", "K14")
def test_a_late_result_is_kept_and_flips_nothing() -> None:
    timed_out = replace(NEW, status="FAILED", failure_reason="TIMEOUT", finished_at=DEADLINE + 1)
    change = apply(timed_out, completed(REQUEST, SUBMISSION), DEADLINE + 60_000)
    assert change is not None and change.event is None
    assert change.after == replace(timed_out, ai_result=change.after.ai_result, is_late=True)
    assert change.after.ai_result is not None and change.after.ai_result["overallScore"] == 7.0


FAILED = replace(NEW, status="FAILED", failure_reason="LLM_FAIL", step="GRADING", progress=0.5, finished_at=7)


@pytest.mark.spec("G9", "000.17", "002.17")
@pytest.mark.parametrize(("confidence", "status"), [(95, "COMPLETED"), (60, "REVIEW_REQUIRED")])
@pytest.mark.parametrize("received_at", [8, DEADLINE])
def test_a_result_before_the_deadline_is_authoritative_over_a_final_error(
    confidence: int, status: str, received_at: int
) -> None:
    change = apply(FAILED, completed(REQUEST, SUBMISSION, result(6.5, confidence)), received_at)
    assert change is not None and change.event is not None
    after = change.after
    assert (after.status, after.failure_reason, after.is_late) == (status, None, False)
    assert after.ai_result is not None and after.ai_result["overallScore"] == 6.5
    assert after.finished_at == (received_at if status == "COMPLETED" else None)
    assert change.event.name == ("grading.completed" if status == "COMPLETED" else "grading.review_required")


@pytest.mark.spec("G9", "G12", "000.23")
def test_a_result_after_the_deadline_undoes_no_failure_and_is_late() -> None:
    change = apply(FAILED, completed(REQUEST, SUBMISSION), DEADLINE + 1)
    assert change is not None and change.event is None
    assert change.after == replace(FAILED, ai_result=change.after.ai_result, is_late=True)


@pytest.mark.spec("G12", "000.23")
def test_a_timeout_never_flips_and_late_means_after_the_deadline() -> None:
    """A sweep whose clock ran ahead has failed it; the result came in time by ours. The timeout stands all the same."""
    timed_out = replace(FAILED, failure_reason="TIMEOUT")
    change = apply(timed_out, completed(REQUEST, SUBMISSION), DEADLINE)
    assert change is not None and change.event is None
    assert change.after == replace(timed_out, ai_result=change.after.ai_result, is_late=False)


@pytest.mark.spec("G8", "000.20")
def test_a_service_that_gives_up_before_the_deadline_says_no_timeout_of_ours() -> None:
    change = apply(NEW, error(REQUEST, SUBMISSION, "TIMEOUT"), DEADLINE)
    assert change is not None and change.after.failure_reason == "SERVICE_TIMEOUT"
    recovered = apply(change.after, completed(REQUEST, SUBMISSION), DEADLINE)
    assert recovered is not None and recovered.after.status == "COMPLETED"


@pytest.mark.spec("002.15")
def test_a_foreign_result_of_85_to_89_is_flagged_wherever_it_is_shown() -> None:
    foreign = result(6.5, 87).model_copy(update={"audit_flag": False})
    change = apply(NEW, completed(REQUEST, SUBMISSION, foreign), 1)
    assert change is not None and change.after.audit_flag
    for kept in (change.after.ai_result, change.after.final_result):
        assert kept is not None and kept["auditFlag"] is True


@pytest.mark.spec("G1", "002.6")
def test_only_what_has_failed_is_submitted_again_and_begins_anew() -> None:
    change = resubmit(replace(FAILED, ai_result={"band": "B1"}, is_late=True), 5 * DEADLINE)
    assert change.after == Submission("PENDING", 5 * DEADLINE)
    assert change.event is not None and change.event.name == "grading.progress"
    for status in ("PENDING", "PROCESSING", "REVIEW_REQUIRED", "COMPLETED"):
        with pytest.raises(TransitionRefusal) as refusal:
            resubmit(replace(NEW, status=status), 5 * DEADLINE)  # type: ignore[arg-type]
        assert refusal.value.code == "NOT_FAILED"


@pytest.mark.spec("G12")
@given(st.sampled_from(["REVIEW_REQUIRED", "COMPLETED", "FAILED"]), st.integers(0, 2 * DEADLINE))
def test_only_what_is_live_times_out(status: str, now: int) -> None:
    assert expire(replace(NEW, status=status), now) is None  # type: ignore[arg-type]


@pytest.mark.spec("G8")
@pytest.mark.parametrize("status", sorted(LIVE))
def test_a_retryable_error_leaves_it_processing(status: str) -> None:
    before = replace(NEW, status=status, step="GRADING", progress=0.5)  # type: ignore[arg-type]
    change = apply(before, error(REQUEST, SUBMISSION, "CIRCUIT_OPEN", retryable=True), 0)
    assert change is not None and change.after == replace(before, status="PROCESSING")
    assert change.event is not None and change.event.data["delayedBy"] == "CIRCUIT_OPEN"


@pytest.mark.spec("G8")
@pytest.mark.parametrize("status", sorted(LIVE))
def test_a_final_error_fails_it_with_its_code(status: str) -> None:
    change = apply(replace(NEW, status=status), error(REQUEST, SUBMISSION, "STT_FAIL"), 7)  # type: ignore[arg-type]
    assert change is not None
    assert (change.after.status, change.after.failure_reason, change.after.finished_at) == ("FAILED", "STT_FAIL", 7)


@pytest.mark.spec("G10", "002.14")
@pytest.mark.parametrize(
    ("confidence", "status", "priority", "audit"),
    [
        (100, "COMPLETED", None, False),
        (90, "COMPLETED", None, False),
        (89, "COMPLETED", None, True),
        (85, "COMPLETED", None, True),
        (84, "REVIEW_REQUIRED", "Medium", False),
        (70, "REVIEW_REQUIRED", "Medium", False),
        (69, "REVIEW_REQUIRED", "High", False),
        (50, "REVIEW_REQUIRED", "High", False),
        (49, "REVIEW_REQUIRED", "Critical", False),
        (0, "REVIEW_REQUIRED", "Critical", False),
    ],
)
def test_confidence_decides_who_sees_it(confidence: int, status: str, priority: str | None, audit: bool) -> None:
    change = apply(NEW, completed(REQUEST, SUBMISSION, result(6.5, confidence)), 1)
    assert change is not None
    after = change.after
    assert (after.status, after.priority, after.audit_flag) == (status, priority, audit)
    assert (after.final_result is None) == (status == "REVIEW_REQUIRED"), "no result before it is final"


@pytest.mark.spec("G10")
def test_a_foreign_result_without_a_priority_gets_one_from_its_confidence() -> None:
    foreign = result(6.5, 60).model_copy(update={"review_priority": None})
    change = apply(NEW, completed(REQUEST, SUBMISSION, foreign), 1)
    assert change is not None and change.after.priority == "High"


def in_review(score: float = 7.0) -> Submission:
    change = apply(NEW, completed(REQUEST, SUBMISSION, result(score, 60)), 1)
    assert change is not None
    return change.after


@pytest.mark.spec("G11")
def test_a_claim_keeps_others_out_until_it_is_released() -> None:
    mine = claim(in_review(), "ann", 5)
    assert mine is not None and (mine.after.claimed_by, mine.after.claimed_at) == ("ann", 5)
    assert claim(mine.after, "ann", 9) is None, "claiming again is harmless"
    for refused in (lambda: claim(mine.after, "bob", 6), lambda: release(mine.after, "bob")):
        with pytest.raises(TransitionRefusal) as refusal:
            refused()
        assert refusal.value.code == "ALREADY_CLAIMED"
    freed = release(mine.after, "ann")
    assert freed is not None and claim(freed.after, "bob", 7) is not None
    assert release(mine.after, "olga", any_claim=True) is not None, "an operator may free what was left behind"


@pytest.mark.spec("G11")
def test_a_close_review_is_weighed_and_all_three_results_are_kept() -> None:
    mine = claim(in_review(7.0), "ann", 5)
    assert mine is not None
    after = review(mine.after, "ann", 7.5, None, "Well argued.", 9).after
    assert (after.status, after.mode, after.audit_flag, after.reviewed_by) == ("COMPLETED", "hybrid", False, "ann")
    assert after.ai_result is not None and after.human_result is not None and after.final_result is not None
    assert after.ai_result["overallScore"] == 7.0 and after.human_result["overallScore"] == 7.5
    assert (after.final_result["overallScore"], after.final_result["band"]) == (7.3, "B2")
    assert after.final_result["instructorFeedback"] == "Well argued."


@pytest.mark.spec("G11")
def test_a_distant_review_overrides_and_is_flagged() -> None:
    mine = claim(in_review(7.0), "ann", 5)
    assert mine is not None
    after = review(mine.after, "ann", 4.0, "B1", None, 9).after
    assert after.final_result is not None
    assert (after.mode, after.audit_flag, after.final_result["overallScore"]) == ("human", True, 4.0)


@pytest.mark.spec("G11", "K15")
def test_a_review_needs_a_claim_and_a_submission_in_review() -> None:
    cases = [(in_review(), "NOT_CLAIMED"), (NEW, "NOT_IN_REVIEW")]
    mine = claim(in_review(), "ann", 5)
    assert mine is not None
    cases += [(mine.after, "ALREADY_CLAIMED"), (review(mine.after, "ann", 7, None, None, 9).after, "NOT_IN_REVIEW")]
    for before, code in cases:
        with pytest.raises(TransitionRefusal) as refusal:
            review(before, "bob", 7.0, None, None, 9)
        assert refusal.value.code == code

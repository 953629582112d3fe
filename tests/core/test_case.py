"""A dead letter's case: every step from every state, who may close it, and when it comes back as escalated."""

from __future__ import annotations

import pytest

from holdfast.core.case import NEXT_STEP, STEPS, CaseState, fingerprint, reopened, why_not, why_unverified

# Every row of the state machine, said once more by hand: from where each step may be taken, and where it leads.
MOVES = {
    "triage": ("open escalated triaged", "triaged"),
    "remediate": ("triaged remediated", "remediated"),
    "correct": ("open escalated triaged remediated", "remediated"),
    "replay": ("remediated", "replayed"),
    "resolve": ("open triaged remediated replayed escalated", "resolved"),
}


@pytest.mark.spec("K8")
@pytest.mark.parametrize("action", MOVES)
def test_a_step_is_taken_from_these_states_and_from_no_other(action: str) -> None:
    sources, target = MOVES[action]
    assert {state for state in CaseState if why_not(state, action) is None} == set(sources.split())
    assert STEPS[action][1] == target
    for state in set(CaseState) - set(sources.split()):
        assert why_not(CaseState(state), action) == (
            f"A dead letter that is {state} cannot be taken through '{action}'. Next: {NEXT_STEP[CaseState(state)]}."
        )


@pytest.mark.spec("K8")
def test_every_step_is_in_the_table_and_every_state_says_what_comes_next() -> None:
    assert set(STEPS) == set(MOVES) and set(NEXT_STEP) == set(CaseState)
    assert not any(CaseState.RESOLVED in sources for sources, _ in STEPS.values()), "what is resolved stays so"


CLOSING = [
    ("replayed", "succeeded", None, True),
    ("replayed", "dead", None, False),
    ("replayed", "cancelled", None, False),
    ("replayed", None, None, False),
    ("triaged", "dead", None, False),
    ("open", "succeeded", None, False),
    ("open", "dead", "nobody needs it", True),
    ("replayed", None, "nobody needs it", True),
    ("replayed", "queued", "nobody needs it", False),
    ("replayed", "processing", "nobody needs it", False),
    ("replayed", "waiting", None, False),
]


@pytest.mark.spec("K8")
@pytest.mark.parametrize(("state", "job_state", "without_replay", "may"), CLOSING)
def test_a_case_is_closed_after_a_replay_that_succeeded_or_with_a_reason(
    state: str, job_state: str | None, without_replay: str | None, may: bool
) -> None:
    assert (why_unverified(CaseState(state), job_state, without_replay) is None) is may


@pytest.mark.spec("K8")
@pytest.mark.parametrize(
    ("before", "old", "new", "retryable", "after"),
    [
        (None, None, "BUG", False, "open"),
        ("replayed", "BUG", "BUG", False, "escalated"),
        ("replayed", "BUG", "OTHER", False, "open"),
        ("replayed", "UPSTREAM", "UPSTREAM", True, "open"),
    ],
)
def test_the_same_permanent_failure_again_escalates(
    before: str | None, old: str | None, new: str, retryable: bool, after: str
) -> None:
    assert reopened(CaseState(before) if before else None, old, new, retryable) == after


@pytest.mark.spec("K8")
def test_a_fingerprint_is_the_one_of_earlier_releases() -> None:
    assert fingerprint("grading.grade", "score", "BUG", "llm") == "18c2d24584b2"
    assert fingerprint("grading.grade", "score", "BUG", None) == fingerprint("grading.grade", "score", "BUG", "")
    assert fingerprint("grading.grade", "score", "BUG", "llm", "a.py:f") != fingerprint(
        "grading.grade", "score", "BUG", "llm", "b.py:g"
    )

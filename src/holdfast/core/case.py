"""A dead letter is a case that a person works on.

    open --triage--> triaged --remediate--> remediated --replay--> replayed --resolve--> resolved
      \\------------------- correct ----------^
     ^                                                        |
     \\-- died again, other cause ----------------------------|
    escalated <-- died again with the same non-retryable error_class

Replay refuses without recorded remediation. A case is resolved when its replayed job has succeeded, or from any step
with a reason why no replay is needed; never while the replay runs. Nothing here happens by itself: a dead letter never
loops.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum

from holdfast.core.job import LIVE, State


class CaseState(StrEnum):
    OPEN = "open"
    TRIAGED = "triaged"
    REMEDIATED = "remediated"
    REPLAYED = "replayed"
    RESOLVED = "resolved"
    ESCALATED = "escalated"


class Cause(StrEnum):
    TRANSIENT = "transient"
    DATA = "data"
    AUTH_CONFIG = "auth_config"
    CODE = "code"


STEPS: dict[str, tuple[frozenset[CaseState], CaseState]] = {
    "triage": (
        frozenset({CaseState.OPEN, CaseState.ESCALATED, CaseState.TRIAGED}),
        CaseState.TRIAGED,
    ),
    "remediate": (frozenset({CaseState.TRIAGED, CaseState.REMEDIATED}), CaseState.REMEDIATED),
    # A correction is a remediation that brings its own evidence; whoever corrects has seen that the data is the cause.
    "correct": (
        frozenset({CaseState.OPEN, CaseState.ESCALATED, CaseState.TRIAGED, CaseState.REMEDIATED}),
        CaseState.REMEDIATED,
    ),
    "replay": (frozenset({CaseState.REMEDIATED}), CaseState.REPLAYED),
    "resolve": (
        frozenset(CaseState) - {CaseState.RESOLVED},
        CaseState.RESOLVED,
    ),
}

NEXT_STEP: dict[CaseState, str] = {
    CaseState.OPEN: "triage it: say whether the cause is transient, data, auth_config or code",
    CaseState.ESCALATED: "it failed again in the same way: have an engineer triage it again",
    CaseState.TRIAGED: "fix the cause and record the evidence with remediate, or correct the input",
    CaseState.REMEDIATED: "replay it from the failed stage",
    CaseState.REPLAYED: "wait until the replayed job has ended, verify the outcome, then resolve it with notes",
    CaseState.RESOLVED: "nothing: it is closed",
}


def why_not(state: CaseState, action: str) -> str | None:
    """Why a case in `state` cannot take the step `action`; None if it can."""
    allowed, _ = STEPS[action]
    if state in allowed:
        return None
    return f"A dead letter that is {state} cannot be taken through '{action}'. Next: {NEXT_STEP[state]}."


def why_unverified(state: CaseState, job_state: str | None, without_replay: str | None) -> str | None:
    """Why a case may not be resolved yet; None if it may.

    `job_state` is None where the job's row is gone. `without_replay` is a person's reason for closing it unverified."""
    if job_state is not None and State(job_state) in LIVE:
        return f"Its job is {job_state}: the replay has not ended. Resolve it when the outcome is known."
    if without_replay:
        return None
    if state is CaseState.REPLAYED and job_state == State.SUCCEEDED:
        return None
    ended = f"its replayed job is {job_state or 'gone'}" if state is CaseState.REPLAYED else f"it is {state}"
    return f"No replay of it has succeeded ({ended}). Replay it first, or say why that is not needed (without_replay)."


def reopened(before: CaseState | None, old_class: str | None, new_class: str, retryable: bool) -> CaseState:
    """The state of a case whose job has just died (again)."""
    if before is None:
        return CaseState.OPEN
    same = old_class == new_class and not retryable
    return CaseState.ESCALATED if same else CaseState.OPEN


def fingerprint(kind: str, stage: str, error_class: str, provider: str | None, origin: str = "") -> str:
    """Groups dead letters that a person would treat as one. `origin` tells unexpected exceptions apart, whose class is
    the same for all; without it the value is the one of earlier releases."""
    parts = [kind, stage, error_class, provider or "", *([f"2:{origin}"] if origin else [])]
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:12]

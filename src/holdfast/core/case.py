"""A dead letter is a case that a person works on.

    open --triage--> triaged --remediate--> remediated --replay--> replayed --resolve--> resolved
     ^                                                        |
     \\-- died again, other cause ----------------------------|
    escalated <-- died again with the same non-retryable error_class

Replay refuses without recorded remediation. A case may be resolved from any step, with notes. Nothing here
happens by itself: a dead letter never loops.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum


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
    "replay": (frozenset({CaseState.REMEDIATED}), CaseState.REPLAYED),
    "resolve": (
        frozenset(CaseState) - {CaseState.RESOLVED},
        CaseState.RESOLVED,
    ),
}

NEXT_STEP: dict[CaseState, str] = {
    CaseState.OPEN: "triage it: say whether the cause is transient, data, auth_config or code",
    CaseState.ESCALATED: "it failed again in the same way: have an engineer triage it anew",
    CaseState.TRIAGED: "mend the cause and record the evidence with remediate",
    CaseState.REMEDIATED: "replay it from the failed stage",
    CaseState.REPLAYED: "verify the outcome, then resolve it with notes",
    CaseState.RESOLVED: "nothing: it is closed",
}


def reopened(before: CaseState | None, old_class: str | None, new_class: str, retryable: bool) -> CaseState:
    """The state of a case whose job has just died (again)."""
    if before is None:
        return CaseState.OPEN
    same = old_class == new_class and not retryable
    return CaseState.ESCALATED if same else CaseState.OPEN


def fingerprint(kind: str, stage: str, error_class: str, provider: str | None) -> str:
    """Groups dead letters that a person would treat as one."""
    return hashlib.sha256(f"{kind}|{stage}|{error_class}|{provider or ''}".encode()).hexdigest()[:12]

"""The one checker: every promise as a small predicate over a history. The same code judges simulated and real runs.

    S1 acceptance      S2 one end per epoch   S3 legal edges       S4 fencing         S5 exclusion      S6 evidence
    S7 effects         S8 re-sends            S9 tokens            S10 retention      S12 budgets       S13 Retry-After
    S14 breakers       S15 deadlines          S16 outbox and acks  S17 inbox          S18 no orphans    S19 dead letters
    S20 no silence     S21 secrecy            S22 shared effects   S28 progress once  L1 all ended      L2 outbox empty
    L4 broker empty

A world's own checks come on top; the kernel's adds S23, what is paid for once, that of two releases S24, deploys,
that of the family S25, that of keys that take turns S26, that of pauses S27.

What needs only the tables is in `audit.py`, and runs on a live database too.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.operator.finding import Violation
from holdfast_proof.checks_budget import BUDGET
from holdfast_proof.checks_effects import EFFECTS
from holdfast_proof.checks_jobs import JOBS
from holdfast_proof.checks_messages import MESSAGES
from holdfast_proof.checks_shared import SHARED
from holdfast_proof.history import RunHistory

__all__ = ["PREDICATES", "Violation", "check"]


def check_secrecy(history: RunHistory) -> Iterator[Violation]:
    """S21: a secret that was planted in a payload and in error messages is in nothing that people or logs see."""
    if history.canary and history.canary in history.texts:
        at = history.texts.index(history.canary)
        yield Violation("S21", f"The planted secret is visible: ...{history.texts[max(0, at - 60) : at]}[it]...")


PREDICATES = (*JOBS, *BUDGET, *EFFECTS, *SHARED, *MESSAGES, check_secrecy)


def check(history: RunHistory) -> list[Violation]:
    """Everything that the history breaks."""
    return [finding for predicate in PREDICATES for finding in predicate(history)]

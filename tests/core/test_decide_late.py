"""What comes after its deadline: a success is too late, and whatever else happened is still what happened."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.core.test_decide import AFTER, NOW, PLAN, job, own

from holdfast.core.decide import decide
from holdfast.core.outcome import Called, Discard, Done, Failed, Held, Lost, Next, Released, Snooze, Wait


@pytest.mark.spec("K14")
@pytest.mark.parametrize(
    ("outcome", "event", "buried"),
    [
        (Done(), "expired", "deadline"),
        (Next(), "expired", "deadline"),
        (Called("{}"), "expired", "deadline"),
        (Failed(own()), "buried", "no_time"),
        (Failed(replace(own(), retryable=False)), "buried", "permanent"),
        (Discard("no use"), "buried", "discarded"),
        (Released(), "released", None),
        (Snooze(5), "snoozed", None),
        (Held("llm", "its limit is reached", NOW + 5_000), "held", None),
        (Lost(), "lost", None),
        (Wait("key", 60), "waiting", None),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str | None) else None,
)
def test_after_the_deadline_only_a_success_is_too_late(outcome: Any, event: str, buried: str | None) -> None:
    """What fails then says what it failed of; what is put back is ended by the sweep."""
    decision = decide(job(deadline_at=NOW - 1), outcome, PLAN, AFTER, NOW, 0.5)
    assert (decision.event, decision.buried) == (event, buried)

"""Why a job is where it is: every answer whole, the sentence and the facts behind it. Pure, so without a database."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.core.breaker import BreakerState, Gate
from holdfast.core.job import State
from holdfast.kernel.questions.explain import Story, _explained
from holdfast.tables.events import JobStep
from holdfast.tables.job_rows import JobDetails
from holdfast.tables.joins import JoinLine
from holdfast.tables.ops import CaseSummary
from holdfast.tables.pauses import JobPause
from holdfast.tables.providers import ProviderRow
from holdfast.tables.workers import SeenWorker

pytestmark = pytest.mark.spec("K17")
NOW = 1_767_225_600_000
CLOCK = "2026-01-01T00:0{}:00.000Z"
JOB = JobDetails(
    **dict.fromkeys(JobDetails._fields, None)
    | {"id": "j", "kind": "k", "queue": "q", "stage": "s", "state": "queued", "parked": 0, "priority": 2}
    | {"attempt": 3, "failures": 1, "crashes": 1, "epoch": 0, "run_at": NOW - 30_000, "version": 1, "payload": "{}"}
    | {"created_at": NOW - 90_000, "updated_at": NOW - 60_000}
)  # type: ignore[arg-type]
WORKER = SeenWorker("w1", "q,r", NOW - 99_000, NOW - 90_000, 7, None, "1")
FREE = " It spends no attempt meanwhile."


def told(
    *, last: tuple[str, dict[str, Any]] | None = None, breaker: dict[str, Any] | None = None, **given: Any
) -> tuple[str, dict[str, Any]]:
    """What is said of a job with these columns, after this last step, beside a provider whose breaker is like this."""
    beside = {name: given.pop(name) for name in ("case", "workers", "declaring", "pauses", "join") if name in given}
    step = None if last is None else JobStep(9, 0, 3, last[0], NOW - 1_000, json.dumps(last[1]))
    provider = None if breaker is None else ProviderRow(BreakerState(**breaker))
    story = Story(JOB._replace(**given), step, provider, beside.pop("case", None), beside.pop("workers", [WORKER]), NOW)
    explanation = _explained(Story(story.job, step, provider, story.case, story.workers, NOW, **beside))
    return explanation.sentence, explanation.facts


def test_a_due_job_waits_its_turn() -> None:
    two = [WORKER, WORKER._replace(name="w2", in_flight=0)]
    due = {"code": "DUE", "in_flight": 7, "queue": "q", "run_at": NOW - 30_000, "workers": 2}
    sentence = "It has been due for 30 s and waits its turn: 2 workers of the queue 'q' had 7 jobs in flight."
    assert told(workers=two) == (sentence, due)
    assert told(workers=two, declaring=frozenset({"k s 1"})) == (sentence, due)
    one = told(workers=[WORKER._replace(in_flight=1)], run_at=NOW)
    assert one[0] == "It has been due for 0 s and waits its turn: 1 worker of the queue 'q' had 1 job in flight."


@pytest.mark.parametrize(
    "worker",
    [
        WORKER._replace(queues="r"),
        WORKER._replace(seen_at=NOW - 90_001),
        WORKER._replace(drain_at=NOW - 1),
    ],
)
def test_a_worker_that_serves_others_is_silent_or_drained_is_none(worker: SeenWorker) -> None:
    assert told(workers=[worker]) == (
        "It has been due for 30 s and no worker of the queue 'q' has reported lately: start one with `holdfast "
        "worker`.",
        {"code": "NO_WORKER", "queue": "q", "run_at": NOW - 30_000, "workers": 0},
    )


@pytest.mark.parametrize("declared", ["k s 2", "k t 1", "l s 1"])
def test_what_no_worker_declares_waits(declared: str) -> None:
    sentence, facts = told(declaring=frozenset({declared}))
    assert sentence.startswith(
        "It waits: no running worker declares the stage 's' of the kind 'k' with input of version 1."
    )
    assert facts == {"code": "UNDECLARED", "queue": "q", "run_at": NOW - 30_000, "workers": 1, "version": 1}


def test_a_pause_says_who_why_and_since_when() -> None:
    pauses = [JobPause("kind", "k", NOW - 120_000, "olga", "prices"), JobPause("queue", "q", NOW, "ann", "x")]
    sentence, facts = told(pauses=pauses, deadline_at=NOW + 60_000)
    assert sentence == (
        "It waits: olga has paused the kind 'k' and the queue 'q' at 2025-12-31T23:58:00.000Z, 2 min ago (prices). It "
        f"spends no attempt meanwhile, and runs when that is resumed; its deadline is {CLOCK.format(1)} (in 60 s)."
    )
    both = [{"sort": "kind", "name": "k"}, {"sort": "queue", "name": "q"}]
    assert facts == {"code": "PAUSED", "paused": both, "since": NOW - 120_000}
    assert told(pauses=pauses)[0].endswith("runs when that is resumed.")
    assert told(hold="pause", parked=1) == (
        "The kind 'k' goes on again; what waited is let go in batches, this one soon.",
        {"code": "RELEASED", "kind": "k"},
    )


OPEN = {"gate": Gate.OPEN, "reason": "3 failed", "open_until": NOW + 60_000}


@pytest.mark.parametrize(
    ("hold", "breaker", "code", "sentence"),
    [
        (None, OPEN, "HELD", f"is open (3 failed) until {CLOCK.format(1)} (in 60 s).{FREE}"),
        (None, OPEN | {"reason": ""}, "HELD", f"is open until {CLOCK.format(1)} (in 60 s).{FREE}"),
        (None, OPEN | {"open_until": None}, "HELD", f"is open (3 failed) until a health probe finds it well.{FREE}"),
        (None, OPEN | {"gate": Gate.HALF_OPEN}, "HELD", f"(3 failed) and lets only a few trial calls through.{FREE}"),
        (None, OPEN | {"forced": True}, "HELD", f"'p' (3 failed); it stays open until one closes it.{FREE}"),
        ("limit", OPEN, "HELD", f"is open (3 failed) until {CLOCK.format(1)} (in 60 s).{FREE}"),
        ("limit", {}, "LIMITED", f"It is held: its limit; it goes on as soon as 'p' has room.{FREE}"),
        ("limit", None, "LIMITED", f"It is held: its limit; it goes on as soon as 'p' has room.{FREE}"),
        (None, {}, "DRAINING", "has closed again; held jobs are let through a few at a time, this one soon."),
        (None, None, "DRAINING", "has closed again; held jobs are let through a few at a time, this one soon."),
    ],
)  # fmt: skip
def test_a_held_job_names_what_holds_it(hold: str | None, breaker: Any, code: str, sentence: str) -> None:
    said, facts = told(parked=1, hold=hold, provider="p", breaker=breaker, last=("held", {"note": "its limit"}))
    assert said.endswith(sentence)
    gate = None if breaker is None else breaker.get("gate", Gate.CLOSED)
    open_until = (breaker or {}).get("open_until")
    assert facts == {"code": code, "provider": "p", "gate": gate, "open_until": open_until}


def test_a_due_job_whose_provider_is_down_is_held_unless_it_is_the_trial() -> None:
    assert told(provider="p", breaker=OPEN)[1]["code"] == "HELD"
    assert told(provider="p", breaker=OPEN, hold="trial")[1]["code"] == "DUE"
    assert told(provider="p", breaker={}, parked=1, hold="turn")[1]["code"] == "DUE"


LATER = {"run_at": NOW + 60_000, "failures": 1, "not_before": None}
THEN = f"{CLOCK.format(1)} (in 60 s)"


@pytest.mark.parametrize(
    ("last", "columns", "sentence", "facts"),
    [
        (
            ("retried", {"error_class": "E"}),
            {},
            f"It runs again {THEN}: retry 1 of the stage 's', because of E.",
            {"code": "RETRY", "error_class": "E"},
        ),
        (
            ("retried", {"error_class": "E", "note": "at no cost"}),
            {},
            f"It runs again {THEN}, after E; at no cost.",
            {"code": "RETRY", "error_class": "E"},
        ),
        (
            ("retried", {"error_class": "E"}),
            {"not_before": NOW + 60_000},
            f"The provider asked to wait (E): it runs again {THEN}, at no cost to its budget.",
            {"code": "RETRY_AFTER", "error_class": "E", "not_before": NOW + 60_000},
        ),
        (
            ("retried", {"error_class": "E"}),
            {"not_before": NOW - 1},
            f"It runs again {THEN}: retry 1 of the stage 's', because of E.",
            {"code": "RETRY", "error_class": "E", "not_before": NOW - 1},
        ),
        (
            ("lost", {}),
            {},
            f"Its worker was lost (1 time in this stage); it runs again {THEN}.",
            {"code": "WORKER_LOST", "crashes": 1},
        ),
        (
            ("held", {"note": "busy"}),
            {},
            f"It was put back at no cost (busy); it runs again {THEN}.",
            {"code": "HELD", "reason": "busy"},
        ),
        (
            ("snoozed", {}),
            {},
            f"It was put back at no cost (it asked for it); it runs again {THEN}.",
            {"code": "SNOOZED", "reason": "it asked for it"},
        ),
        (("replayed", {}), {}, f"It was replayed and is not due yet: it runs {THEN}.", {"code": "SCHEDULED"}),
        (None, {}, f"It is not due yet: it runs {THEN}.", {"code": "SCHEDULED"}),
    ],
)  # fmt: skip
def test_a_job_of_a_later_time_says_who_asked_for_that(last: Any, columns: Any, sentence: str, facts: Any) -> None:
    assert told(last=last, run_at=NOW + 60_000, **columns) == (sentence, {**LATER, **facts})


def test_a_running_job_names_its_worker_until_its_lease_is_over() -> None:
    held = {"state": State.PROCESSING, "lease_owner": "w1"}
    facts = {"worker": "w1", "attempt": 3}
    assert told(**held, lease_until=NOW) == (
        f"It is running: worker 'w1' works on the stage 's' (attempt 3) and holds it until {CLOCK.format(0)} (now) "
        "unless it renews.",
        {"code": "RUNNING", "lease_until": NOW, **facts},
    )
    sentence, lost = told(**held, lease_until=NOW - 1_000)
    assert sentence.startswith("Its worker 'w1' has let the lease run out 1 s ago;")
    assert lost == {"code": "LEASE_EXPIRED", "lease_until": NOW - 1_000, **facts}


def test_the_ends_and_the_waits_say_what_comes_next() -> None:
    waiting = told(state=State.WAITING, wait_key="a", run_at=NOW + 7_199_999)
    assert waiting == (
        "It waits for a callback with the key 'a', until 2026-01-01T01:59:59.999Z (in 119 min).",
        {"code": "WAITING", "wait_key": "a", "until": NOW + 7_199_999},
    )
    join = JoinLine("a", "s", 0, "shop.page", "sealed", 20, 17, NOW)
    assert told(state=State.WAITING, wait_key="join:a", join=join) == (
        "It waits for its children: 17 of 20 jobs of 'shop.page' have not ended.",
        {"code": "CHILDREN", "children": 20, "unended": 17},
    )
    assert told(state=State.WAITING, run_at=NOW + 7_200_000)[0].endswith("(in 2 h).")
    assert told(state=State.WAITING, run_at=NOW + 119_999)[0].endswith("(in 119 s).")
    at = {"finished_at": NOW}
    assert told(state=State.SUCCEEDED, **at) == (
        f"It succeeded at {CLOCK.format(0)}; there is nothing left to run.",
        {"code": "FINISHED", **at},
    )
    assert told(state=State.CANCELLED, last=("cancelled", {"note": "by ann"}))[0] == (
        "It was cancelled by ann at 2025-12-31T23:59:00.000Z; there is nothing left to run."
    )
    assert told(state=State.DEAD) == (
        "It died, and its dead letter is gone at 2025-12-31T23:59:00.000Z; there is nothing left to run.",
        {"code": "DEAD", "finished_at": NOW - 60_000},
    )
    case = CaseSummary("c1", "triaged", "s", "E", "exhausted", 2)
    assert told(state=State.DEAD, case=case) == (
        "It died in the stage 's' of E (exhausted) after 2 attempts. Dead letter c1 is triaged; next: fix the cause "
        "and record the evidence with remediate, or correct the input.",
        {"code": "DEAD", "case_id": "c1", "case_state": "triaged", "error_class": "E", "stage": "s"},
    )

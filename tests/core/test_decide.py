"""What becomes of a job: a table of outcomes, counters and deadlines, then properties that hold for all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import budget
from holdfast.core.breaker import BreakerState, Gate
from holdfast.core.budget import Standing, Tally
from holdfast.core.decide import ASKED_NOTE, DOWN_NOTE, Decision, StagePlan, decide
from holdfast.core.failure import Category, Failure, failure
from holdfast.core.job import Claimed, State
from holdfast.core.outcome import Called, Discard, Done, Failed, Held, Lost, Next, Overdue, Released, Snooze, Wait
from holdfast.core.retry import Retry

NOW = 1_000_000
RETRY = Retry(attempts=3, base_s=10, jitter="none")
PLAN = StagePlan("ask", "llm", RETRY)
AFTER = StagePlan("tell", "mail", RETRY)
CLOSED = {"llm": BreakerState(generation=4)}
OPEN = {"llm": BreakerState(gate=Gate.OPEN, generation=5)}
HALF_OPEN = {"llm": BreakerState(gate=Gate.HALF_OPEN, generation=6)}
CLOSED_AGAIN = {"llm": BreakerState(generation=7)}


def job(failures: int = 0, tally: Tally | None = None, deadline_at: int | None = None, **more: Any) -> Claimed:
    row = Claimed(
        "j", "k", "q", "ask", State.PROCESSING, 7, failures, 0, 0, 2, 0, 0, deadline_at, None, None, None, None, "{}"
    )
    return row._replace(tally=budget.to_text(tally) if tally else None, **more)


def fault(**more: Any) -> Failure:
    return failure(Category.UPSTREAM, "UPSTREAM_INTERNAL", "500", faults=True, status=500, **more)


def limited(seconds: float | None = None) -> Failure:
    return failure(
        Category.RATE_LIMIT, "RATE_LIMITED", "429", status=429, retry_after_ms=seconds and int(seconds * 1_000)
    )


def own(**more: Any) -> Failure:
    return failure(Category.CONFLICT, "UPSTREAM_CONFLICT", "409", status=409, **more)


def at(generation: int = 4, *, is_fault: bool = True, hold_max_ms: int | None = None) -> tuple[Standing, ...]:
    return (Standing("llm", generation, is_fault, hold_max_ms),)


def fate(decision: Decision) -> tuple[str, int, str | None]:
    return decision.event, decision.failures, decision.buried


FATES = [
    # what came                                    spent  gates          event      spent then  buried
    (Done(), 2, CLOSED, ("succeeded", 2, None)),
    (Next(), 2, CLOSED, ("advanced", 0, None)),
    (Called("{}"), 0, CLOSED, ("advanced", 0, None)),
    (Snooze(5), 2, CLOSED, ("snoozed", 2, None)),
    (Wait("key", 60), 2, CLOSED, ("waiting", 2, None)),
    (Released(), 2, CLOSED, ("released", 2, None)),
    (Lost(), 2, CLOSED, ("lost", 2, None)),
    (Held("llm", "open", NOW + 5), 2, OPEN, ("held", 2, None)),
    (Held("llm", "later", NOW + 5, asked=True), 2, CLOSED, ("held", 2, None)),
    (Discard("no use"), 2, CLOSED, ("buried", 2, "discarded")),
    (Overdue(), 2, CLOSED, ("expired", 2, "deadline")),
    (Failed(own()), 0, CLOSED, ("retried", 1, None)),
    (Failed(own()), 1, CLOSED, ("retried", 2, None)),
    (Failed(own()), 2, CLOSED, ("buried", 3, "exhausted")),
    (Failed(replace(own(), retryable=False)), 0, CLOSED, ("buried", 1, "permanent")),
    # a provider's fault counts while its breaker is closed in the generation of the call, and never otherwise
    (Failed(fault(), at()), 0, CLOSED, ("retried", 1, None)),
    (Failed(fault(), at()), 2, CLOSED, ("buried", 3, "exhausted")),
    (Failed(fault(), at()), 2, OPEN, ("retried", 2, None)),
    (Failed(fault(), at(6)), 2, HALF_OPEN, ("retried", 2, None)),
    (Failed(fault(), at(6)), 2, OPEN, ("retried", 2, None)),
    (Failed(fault(), at()), 2, CLOSED_AGAIN, ("retried", 2, None)),
    (Failed(fault()), 2, OPEN, ("buried", 3, "exhausted")),  # not a recorded call: nobody knows whose fault it was
    # a caller's mistake counts, whatever the breaker does
    (Failed(own(), at(is_fault=False)), 2, OPEN, ("buried", 3, "exhausted")),
    # what the provider asked for costs nothing
    (Failed(limited(5), at()), 2, CLOSED, ("retried", 2, None)),
    (Failed(limited(), at()), 2, CLOSED, ("retried", 2, None)),
    (Failed(limited(5)), 2, CLOSED, ("retried", 2, None)),
    (Failed(replace(fault(retry_after_ms=5_000), status=503), at()), 2, CLOSED, ("retried", 2, None)),
    (Failed(replace(fault(), status=503), at()), 2, CLOSED, ("buried", 3, "exhausted")),
    (Failed(fault(retry_after_ms=5_000), at()), 2, CLOSED, ("buried", 3, "exhausted")),
    (Failed(replace(limited(5), retryable=False), at()), 0, CLOSED, ("buried", 1, "permanent")),
]


@pytest.mark.spec("K4", "K9", "000.12")
@pytest.mark.parametrize(("outcome", "spent", "gates", "wanted"), FATES)
def test_what_becomes_of_a_job_and_what_it_has_spent_then(
    outcome: Any, spent: int, gates: budget.Gates, wanted: tuple[str, int, str | None]
) -> None:
    given_job = job(spent)._replace(run_at=NOW)
    assert fate(decide(given_job, outcome, PLAN, AFTER, NOW, 0.0, gates)) == wanted


def play(outcomes: list[tuple[Any, budget.Gates]], plan: StagePlan = PLAN) -> list[Decision]:
    """One outcome after the other, each on the row that the one before left."""
    row, decisions = job(), []
    for outcome, gates in outcomes:
        decision = decide(row, outcome, plan, AFTER, NOW, 0.0, gates)
        decisions.append(decision)
        row = row._replace(failures=decision.failures, tally=decision.tally, crashes=decision.crashes)
    return decisions


@pytest.mark.spec("K9")
@pytest.mark.parametrize("later", [OPEN, HALF_OPEN, CLOSED_AGAIN])
def test_the_failures_that_opened_a_breaker_are_given_back_to_every_job_that_had_counted_one(
    later: budget.Gates,
) -> None:
    counted = [(Failed(fault(), at()), CLOSED)] * 2
    assert [one.failures for one in play(counted)] == [1, 2]
    (generation,) = {state.generation for state in later.values()}
    for outcome, spent in (
        (Failed(fault(), at(generation)), 0 if later is not CLOSED_AGAIN else 1),
        (Failed(own(), at(generation, is_fault=False)), 1),
        (Failed(limited(1), at(generation)), 0),
    ):
        last = play([*counted, (outcome, later)])[-1]
        assert (last.event, last.failures) == ("retried", spent)


@pytest.mark.spec("K9")
def test_only_the_providers_own_faults_are_given_back() -> None:
    decisions = play([(Failed(own()), CLOSED), (Failed(fault(), at()), CLOSED), (Failed(fault(), at(6)), OPEN)])
    assert [one.failures for one in decisions] == [1, 2, 1]
    assert [one.note for one in decisions] == [None, None, DOWN_NOTE]


@pytest.mark.spec("K9")
def test_faults_of_two_providers_are_kept_apart() -> None:
    both = {**CLOSED, "stt": BreakerState(generation=1)}
    heard = Failed(fault(), (Standing("stt", 1, True),))
    plan = replace(PLAN, retry=replace(RETRY, attempts=9))
    decisions = play(
        [
            (Failed(fault(), at()), both),
            (heard, both),
            (heard, both),
            (heard, {**both, "stt": BreakerState(gate=Gate.OPEN, generation=2)}),
        ],
        plan,
    )
    assert [one.failures for one in decisions] == [1, 2, 3, 1]


@pytest.mark.spec("K9")
def test_parallel_calls_are_free_only_if_each_is() -> None:
    down, up = Standing("llm", 4, True), Standing("stt", 1, True)
    gates = {**OPEN, "stt": BreakerState(generation=1)}
    assert decide(job(), Failed(fault(), (down, down)), PLAN, AFTER, NOW, 0.0, gates).failures == 0
    assert decide(job(), Failed(fault(), (down, up)), PLAN, AFTER, NOW, 0.0, gates).failures == 1


@pytest.mark.spec("000.12", "G6")
def test_one_budget_of_retries_bounds_all_stages_together() -> None:
    plan = replace(PLAN, retries_in_all=3)
    spent = [(Failed(own()), CLOSED)] * 2
    done = (Next(), CLOSED)
    decisions = play([*spent, done, *spent], plan)
    assert [fate(one) for one in decisions] == [
        ("retried", 1, None),
        ("retried", 2, None),
        ("advanced", 0, None),
        ("retried", 1, None),
        ("buried", 2, "exhausted"),
    ]
    assert fate(play([*spent, done, *spent])[-1]) == ("retried", 2, None), "without it each stage has its own"
    free = [(Failed(limited(1)), CLOSED), (Released(), CLOSED), (Lost(), CLOSED), (Held("llm", "x", NOW), CLOSED)]
    assert fate(play([*spent, done, *free, (Failed(own()), CLOSED)], plan)[-1]) == ("retried", 1, None)
    refunded = [(Failed(fault(), at()), CLOSED)] * 2
    assert fate(play([*refunded, (Next(), CLOSED_AGAIN), *spent], plan)[-1]) == ("retried", 2, None)


@pytest.mark.spec("K4", "001.5")
def test_a_provider_that_asks_again_and_again_is_called_less_and_less() -> None:
    waits = [one.run_at - NOW for one in play([(Failed(limited(1)), CLOSED)] * 5)]
    assert waits == [10_000, 20_000, 40_000, 60_000, 60_000]
    again = play([*[(Failed(limited(1)), CLOSED)] * 3, (Failed(own()), CLOSED), (Failed(limited(1)), CLOSED)])
    assert again[-1].run_at - NOW == 10_000, "anything else starts the row anew"
    known_down = play(
        [*[(Failed(limited(1)), CLOSED)] * 3, (Failed(fault(), at()), OPEN), (Failed(limited(1)), CLOSED)]
    )
    assert known_down[-1].run_at - NOW == 10_000, "an outage too"
    held = (Held("llm", "x", NOW, asked=True), CLOSED)
    assert play([(Failed(limited(1)), CLOSED), held, (Failed(limited(1)), CLOSED)])[-1].run_at - NOW == 20_000
    assert play([(Failed(limited(25)), CLOSED)] * 2)[-1].run_at - NOW == 25_000, "what it asks for, if that is longer"


@pytest.mark.spec("K4", "001.5")
def test_a_bound_on_holding_ends_the_job_with_the_real_cause() -> None:
    wait = (Failed(limited(1_000), at(hold_max_ms=3_000_000)), CLOSED)
    held = (Held("llm", "it asked", NOW + 1_000_000, asked=True, hold_max_ms=3_000_000), CLOSED)
    other = (Held("llm", "its breaker is open", NOW + 9_000_000), CLOSED)
    decisions = play([wait, held, other, wait, wait])
    assert [fate(one) for one in decisions] == [
        ("retried", 0, None),
        ("held", 0, None),
        ("held", 0, None),
        ("retried", 0, None),
        ("buried", 0, "exhausted"),
    ]
    assert decisions[-1].failure == limited(1_000)
    by_holding = play([wait, held, held, held])[-1]
    assert by_holding.failure is not None
    assert (fate(by_holding), by_holding.failure.error_class) == (("buried", 0, "exhausted"), "RATE_LIMITED")


@pytest.mark.spec("K14", "000.20")
@pytest.mark.parametrize(
    ("outcome", "gates", "error_class", "least_ms"),
    [
        (Failed(own()), CLOSED, "UPSTREAM_CONFLICT", 10_000),
        (Failed(fault(), at()), OPEN, "UPSTREAM_INTERNAL", 10_000),
        (Failed(limited(90), at()), CLOSED, "RATE_LIMITED", 90_000),
        (Held("llm", "x", NOW + 90_000, asked=True), CLOSED, "RATE_LIMITED", 90_000),
    ],
)
def test_a_wait_that_would_pass_the_deadline_ends_the_job_at_once_with_its_real_cause(
    outcome: Any, gates: budget.Gates, error_class: str, least_ms: int
) -> None:
    late = decide(job(deadline_at=NOW + least_ms - 1), outcome, PLAN, AFTER, NOW, 0.0, gates)
    assert late.failure is not None
    assert (late.state, late.buried, late.failure.error_class) == (State.DEAD, "no_time", error_class)
    in_time = decide(job(deadline_at=NOW + least_ms), outcome, PLAN, AFTER, NOW, 0.0, gates)
    assert (in_time.state, in_time.run_at) == (State.QUEUED, NOW + least_ms)


@pytest.mark.spec("K9", "G7")
def test_a_breaker_that_is_open_beyond_the_deadline_is_waited_for_until_the_deadline() -> None:
    held = decide(job(deadline_at=NOW + 10), Held("llm", "open", NOW + 90_000), PLAN, AFTER, NOW, 0.0, OPEN)
    assert held.state is State.QUEUED


@pytest.mark.spec("K4")
@pytest.mark.parametrize("outcome", [Failed(replace(own(), retryable=False)), Discard("no use"), Overdue()])
def test_what_a_provider_asked_for_earlier_is_kept_for_a_replay_however_the_job_dies(outcome: Any) -> None:
    decision = decide(job(not_before=NOW + 60_000), outcome, PLAN, AFTER, NOW, 0.0)
    assert (decision.state, decision.not_before) == (State.DEAD, NOW + 60_000)


@pytest.mark.spec("K4", "001.5")
def test_of_two_providers_that_put_a_job_off_the_stricter_bound_ends_it() -> None:
    standings = (*at(hold_max_ms=5_000), Standing("stt", 1, False, 900_000))
    first, then = play([(Failed(limited(30), standings), CLOSED)] * 2)
    assert (first.run_at, first.buried, then.buried) == (NOW + 5_000, None, "exhausted")


@pytest.mark.spec("K4", "001.5")
@pytest.mark.parametrize("asked_s", [61, 7_200])
def test_a_wait_longer_than_the_bound_lasts_as_long_as_the_bound_and_then_ends_the_job(asked_s: int) -> None:
    wait = (Failed(limited(asked_s), at(hold_max_ms=60_000)), CLOSED)
    held = (Held("llm", "it asked", NOW + asked_s * 1_000, asked=True, hold_max_ms=60_000), CLOSED)
    for first in (wait, held):
        begun, ended = play([first, held])
        assert (begun.state, begun.run_at, begun.buried) == (State.QUEUED, NOW + 60_000, None)
        assert (ended.buried, ended.failures) == ("exhausted", 0) and "for 60 s" in str(ended.failure)
    free = (Held("llm", "it asked", NOW, asked=True, hold_max_ms=60_000), CLOSED)
    assert play([wait, free])[-1].buried is None


@pytest.mark.spec("K4", "000.20")
def test_a_wait_past_the_deadline_ends_the_job_at_once_whatever_the_bound_leaves() -> None:
    late = job(deadline_at=NOW + 90_000)
    held = Held("llm", "it asked", NOW + 7_200_000, asked=True, hold_max_ms=60_000)
    for outcome in (Failed(limited(7_200), at(hold_max_ms=60_000)), held):
        assert decide(late, outcome, PLAN, AFTER, NOW, 0.0, CLOSED).buried == "no_time"


@pytest.mark.spec("K4")
def test_what_a_provider_asks_for_is_waited_for_in_full_and_kept_for_a_replay() -> None:
    decision = decide(job(), Failed(limited(3_600)), PLAN, AFTER, NOW, 0.0)
    assert decision.run_at == decision.not_before == NOW + 3_600_000 and decision.note == ASKED_NOTE
    capped = replace(PLAN, retry=replace(RETRY, ceiling_s=300))
    decision = decide(job(), Failed(limited(3_600)), capped, AFTER, NOW, 0.0)
    assert decision.run_at == decision.not_before == NOW + 300_000


outcomes = st.sampled_from(
    [
        Failed(own()),
        Failed(fault(), at()),
        Failed(fault(), at(6)),
        Failed(limited(2), at()),
        Lost(),
        Released(),
        Snooze(1),
        Held("llm", "x", NOW + 1_000, asked=True),
        Held("llm", "x", NOW + 1_000),
    ]
)
gates = st.lists(st.integers(0, 3), min_size=12, max_size=12).map(
    lambda turns: [(CLOSED, OPEN, HALF_OPEN, CLOSED_AGAIN)[turn] for turn in sorted(turns)]  # as a breaker goes on
)
stories = st.tuples(st.lists(outcomes, max_size=12), gates).map(lambda drawn: list(zip(*drawn, strict=False)))
ATTEMPTS = 4


def live(story: list[tuple[Any, budget.Gates]]) -> list[Decision]:
    decisions = play(story, replace(PLAN, retry=replace(RETRY, attempts=ATTEMPTS)))
    ends = [index for index, one in enumerate(decisions) if one.state is State.DEAD]
    return decisions[: ends[0] + 1] if ends else decisions


@pytest.mark.spec("K4", "K9")
@given(stories)
def test_nobody_is_exhausted_by_less_than_the_failures_that_say_something_about_the_job(
    story: list[tuple[Any, budget.Gates]],
) -> None:
    decisions = live(story)
    if not decisions or decisions[-1].buried != "exhausted":
        return
    lived = story[: len(decisions)]
    counted = 0
    for index, (outcome, _) in enumerate(lived):
        stayed_closed = all(gates is CLOSED for _, gates in lived[index:])
        counted += outcome == Failed(own()) or (outcome == Failed(fault(), at()) and stayed_closed)
    assert counted >= ATTEMPTS


@pytest.mark.spec("K4", "K9")
@given(stories)
def test_a_live_job_has_spent_less_than_its_budget_and_nothing_is_given_back_twice(
    story: list[tuple[Any, budget.Gates]],
) -> None:
    decisions = live(story)
    for one in decisions:
        assert one.failures >= 0
        if one.state is State.QUEUED:
            assert one.failures < ATTEMPTS
        tally = budget.from_text(one.tally)
        assert sum(count for _, count in tally.faults.values()) <= one.failures
        assert budget.from_text(budget.to_text(tally)) == tally


@pytest.mark.spec("K4")
def test_a_job_that_never_met_a_failure_carries_no_tally() -> None:
    assert decide(job(), Next(), PLAN, AFTER, NOW, 0.0).tally is None
    assert budget.to_text(Tally()) is None and budget.from_text(None) == Tally()

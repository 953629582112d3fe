"""Rules for moments that are rare: a lost worker's next try, a token that is about to be forgotten."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from holdfast import Provider
from holdfast.core import budget, rate
from holdfast.core.breaker import BreakerPolicy, BreakerState, record
from holdfast.core.budget import Tally
from holdfast.core.decide import StagePlan, decide
from holdfast.core.effect import (
    EffectRow,
    EffectStatus,
    LookLater,
    LookUp,
    Send,
    Step,
    after_unknown_id,
    next_step,
    token_of,
    within_retention,
)
from holdfast.core.job import Claimed, State
from holdfast.core.outcome import Back, Lost, Next, Outcome, Parked, Wait

NOW = 1_000_000_000


@pytest.mark.spec("K6")
@pytest.mark.parametrize("crashes", [0, 1])
def test_a_lost_job_waits_a_second_for_each_worker_that_it_has_lost(crashes: int) -> None:
    row = Claimed("j", "k", "q", "ask", State.PROCESSING, 7, 0, crashes, 0, 2, 0, 0, None, None, None, None, None, "{}")
    decision = decide(row, Lost(), StagePlan("ask"), None, NOW, 0.5)
    assert (decision.state, decision.run_at, decision.crashes) == (
        State.QUEUED,
        NOW + 1_000 * (crashes + 1),
        crashes + 1,
    )
    asked = decide(row._replace(not_before=NOW + 60_000), Lost(), StagePlan("ask"), None, NOW, 0.5)
    assert asked.run_at == NOW + 60_000, "what a provider asked for outlives the worker"


@pytest.mark.spec("K6")
@pytest.mark.parametrize("outcome", [Wait("key", 60), Parked("key", NOW + 60_000)])
def test_a_job_that_waits_has_not_lost_a_worker_in_what_comes_next(outcome: Outcome) -> None:
    row = Claimed("j", "k", "q", "ask", State.PROCESSING, 7, 0, 2, 0, 2, 0, 0, None, None, None, None, None, "{}")
    assert decide(row, outcome, StagePlan("ask"), None, NOW, 0.5).crashes == 0


@pytest.mark.spec("000.12", "G6")
@pytest.mark.parametrize("outcome", [Next(), Back("fetch", None)])
@pytest.mark.parametrize("failures", [0, 2])
def test_what_earlier_stages_spent_counts_however_many_stages_lie_between(outcome: Outcome, failures: int) -> None:
    row = Claimed("j", "k", "q", "b", State.PROCESSING, 7, failures, 0, 0, 2, 0, 0, None, None, None, None, None, "{}")
    row = row._replace(tally=budget.to_text(Tally(earlier=3)))
    moved = decide(row, outcome, StagePlan("b"), StagePlan("c"), NOW, 0.5)
    assert budget.from_text(moved.tally).earlier == 3 + failures


@pytest.mark.spec("K9")
@pytest.mark.parametrize(("age_ms", "kept"), [(9_999, "10"), (10_000, "0")])
def test_an_outcome_leaves_the_window_of_time_when_it_is_as_old_as_the_window(age_ms: int, kept: str) -> None:
    policy = BreakerPolicy(window_s=10, failures_in_a_row=None)
    failed = record(BreakerState(), policy, NOW, 0, "a", ok=False)
    assert record(failed, policy, NOW + age_ms, 0, "b", ok=True).window == kept


@pytest.mark.spec("K18")
def test_calls_that_share_an_entry_leave_the_minute_together_and_none_too_early() -> None:
    usage = rate.Usage()
    for _ in range(120):
        usage = spent(rate.spend(usage, 120, None, 999))
    assert rate.spend(usage, 120, None, 61_998) == 62_000, "no minute sees more, wherever it begins"
    assert spent(rate.spend(usage, 120, None, 62_000)).recent == ((62_000, 1),)


def spent(usage: rate.Usage | int) -> rate.Usage:
    assert isinstance(usage, rate.Usage)
    return usage


@pytest.mark.spec("K12", "004.24")
@pytest.mark.parametrize(("effects", "step"), [("token", LookUp(alert=True)), ("lookup", LookLater(NOW + 35_000))])
def test_half_a_mark_is_looked_up_at_once_only_where_a_token_makes_a_second_send_harmless(
    effects: Literal["token", "lookup"], step: Step
) -> None:
    provider = Provider("p", effects=effects, timeout_s=30, late_bound_s=5, lookup=never_asked)
    row = EffectRow("k", token_of("k"), EffectStatus.SENDING, "p", "id-1", 0, 1, NOW, NOW, None, None)
    assert next_step(row, provider, 0, NOW, can_look=True) == step


@pytest.mark.spec("K12", "004.28")
def test_an_id_that_a_provider_may_have_forgotten_proves_nothing_though_it_was_marked_lately() -> None:
    provider = Provider("p", effects="token", retention_s=600, timeout_s=1)
    lately = NOW + 590_000
    row = EffectRow("k", token_of("k"), EffectStatus.SENT, "p", "id-1", 0, 1, NOW, NOW, None, None, marked_at=lately)
    assert after_unknown_id(row, provider, lately) is None
    assert after_unknown_id(replace(row, first_sent_at=lately - 10_000), provider, lately) == Send()


async def never_asked(token: str) -> str | None:
    raise AssertionError("a rule asks nobody")


@pytest.mark.spec("K12")
@pytest.mark.parametrize(("retention_s", "margin_s"), [(86_400, 3_600), (600, 60), (36_000, 3_600)])
def test_a_token_is_not_trusted_in_the_last_part_of_its_time(retention_s: float, margin_s: float) -> None:
    """The provider's clock is not ours, and a send takes its time: an hour, or a tenth of what it remembers."""
    provider = Provider("p", effects="token", retention_s=retention_s)
    last = NOW + int((retention_s - margin_s) * 1_000)
    sent = EffectRow("k", token_of("k"), EffectStatus.UNKNOWN, "p", None, 0, 1, NOW, NOW, None, None)
    assert within_retention(sent, provider, last - 1) and not within_retention(sent, provider, last)

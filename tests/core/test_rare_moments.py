"""Rules for moments that are rare: a lost worker's next try, a token that is about to be forgotten."""

from __future__ import annotations

import pytest

from holdfast import Provider
from holdfast.core.decide import StagePlan, decide
from holdfast.core.effect import EffectRow, EffectStatus, token_of, within_retention
from holdfast.core.job import Claimed, State
from holdfast.core.outcome import Lost

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


@pytest.mark.spec("K12")
@pytest.mark.parametrize(("retention_s", "margin_s"), [(86_400, 3_600), (600, 60), (36_000, 3_600)])
def test_a_token_is_not_trusted_in_the_last_part_of_its_time(retention_s: float, margin_s: float) -> None:
    """The provider's clock is not ours, and a send takes its time: an hour, or a tenth of what it remembers."""
    provider = Provider("p", effects="token", retention_s=retention_s)
    last = NOW + int((retention_s - margin_s) * 1_000)
    sent = EffectRow("k", token_of("k"), EffectStatus.UNKNOWN, "p", None, 0, 1, NOW, NOW, None, None)
    assert within_retention(sent, provider, last - 1) and not within_retention(sent, provider, last)

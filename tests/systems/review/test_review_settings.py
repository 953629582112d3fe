"""What the settings of reviews say reaches what obeys it."""

from __future__ import annotations

import pytest

from holdfast import Breaker, Retry
from holdfast.http.limits import UserLimits
from holdfast.settings import read
from holdfast_systems.review.settings import ReviewSettings


@pytest.mark.spec("R3", "K18")
def test_what_the_defaults_come_to() -> None:
    made = read(ReviewSettings, {})
    assert made.user_limits == UserLimits(600, 1_000)
    assert made.retry == Retry(attempts=5, base_s=1.0, multiplier=2.0, cap_s=60.0, jitter="full", ceiling_s=300.0)
    assert made.breaker == Breaker(
        window=20, open_above=0.5, cooldown_s=30.0, cooldown_max_s=300.0, trials=3, failures_in_a_row=10
    )


@pytest.mark.spec("K18")
def test_each_limit_of_a_caller_is_its_own() -> None:
    made = read(ReviewSettings, {"REVIEW_REQUESTS_PER_MINUTE": "3", "REVIEW_UNFINISHED_MAX": "4"})
    assert made.user_limits == UserLimits(3, 4)

"""Delays: the three systems' policies as values, then bounds that hold for every policy."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.retry import Retry

REVIEW = Retry()
GRADING = Retry(attempts=4, base_s=2, cap_s=300, jitter="additive", jitter_max_s=1, ceiling_s=300)
CONVERSION = Retry(attempts=3, base_s=5, cap_s=60, jitter="additive", jitter_max_s=5)

ALMOST_ONE = math.nextafter(1.0, 0.0)
draws = st.floats(0, ALMOST_ONE)
seconds = st.floats(0, 1_000)
bounds = st.tuples(seconds, seconds).map(sorted)


def policy_of(bounds: list[float], **rest: Any) -> Retry:
    return Retry(base_s=bounds[0], cap_s=bounds[1], **rest)


policies = st.one_of(
    st.builds(
        policy_of,
        bounds,
        multiplier=st.floats(1, 10),
        jitter=st.just("additive"),
        jitter_max_s=seconds,
        ceiling_s=st.none() | seconds,
    ),
    st.builds(
        policy_of,
        bounds,
        multiplier=st.floats(1, 10),
        jitter=st.sampled_from(["full", "none"]),
        ceiling_s=st.none() | seconds,
    ),
)
failure_counts = st.integers(1, 10**6)


def ms(value_s: float) -> int:
    return round(value_s * 1_000)


@pytest.mark.spec("K4", "R3", "004.3")
@pytest.mark.parametrize(("failures", "most_s"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 32), (7, 60), (40, 60)])
def test_review_draws_from_zero_to_the_capped_exponential(failures: int, most_s: float) -> None:
    assert REVIEW.attempts == 5
    assert REVIEW.delay_ms(failures, 0.0) == 0
    assert REVIEW.delay_ms(failures, 0.5) == ms(most_s / 2)
    assert REVIEW.delay_ms(failures, ALMOST_ONE) == ms(most_s)


@pytest.mark.spec("K4", "G6", "000.13")
@pytest.mark.parametrize(("failures", "least_s"), [(1, 2), (2, 4), (3, 8)])
def test_grading_waits_two_to_the_n_seconds_and_up_to_one_more(failures: int, least_s: float) -> None:
    assert GRADING.attempts == 4
    assert GRADING.delay_ms(failures, 0.0) == ms(least_s)
    assert GRADING.delay_ms(failures, 0.25) == ms(least_s + 0.25)
    assert GRADING.delay_ms(failures, ALMOST_ONE) == ms(least_s + 1)


@pytest.mark.spec("K4", "G6", "000.13")
def test_grading_never_waits_longer_than_300_s() -> None:
    assert GRADING.delay_ms(20, 0.9) == 300_000
    assert GRADING.delay_ms(1, 0.0, retry_after_ms=86_400_000) == 300_000


@pytest.mark.spec("K4", "C3", "001.6", "001.35")
@pytest.mark.parametrize(("failures", "least_ms"), [(1, 5_000), (2, 10_000)])
def test_conversion_waits_five_seconds_doubled_and_up_to_five_more(failures: int, least_ms: int) -> None:
    assert CONVERSION.attempts == 3
    assert CONVERSION.delay_ms(failures, 0.0) == least_ms
    assert CONVERSION.delay_ms(failures, 0.5) == least_ms + 2_500
    assert CONVERSION.delay_ms(failures, ALMOST_ONE) == least_ms + 5_000


@pytest.mark.spec("K4")
def test_additive_jitter_is_capped_with_the_exponential() -> None:
    policy = Retry(base_s=8, cap_s=10, jitter="additive", jitter_max_s=4)
    assert policy.delay_ms(1, 0.25) == 9_000
    assert policy.delay_ms(1, 0.75) == 10_000


@pytest.mark.spec("K4")
def test_without_jitter_the_draw_does_not_matter() -> None:
    policy = Retry(base_s=1, multiplier=3, cap_s=20, jitter="none")
    assert [policy.delay_ms(n, draw) for n, draw in [(1, 0.0), (2, 0.9), (3, 0.1), (4, 0.5)]] == [
        1_000,
        3_000,
        9_000,
        20_000,
    ]


@pytest.mark.spec("K4")
def test_one_attempt_is_a_policy_too() -> None:
    assert Retry(attempts=1).attempts == 1


@pytest.mark.spec("K4")
def test_what_the_provider_asks_for_is_waited_for_in_full_unless_there_is_a_ceiling() -> None:
    assert Retry().delay_ms(1, 0.0, retry_after_ms=3_600_000) == 3_600_000
    assert Retry(ceiling_s=300).delay_ms(1, 0.0, retry_after_ms=300_001) == 300_000
    assert Retry(ceiling_s=300).delay_ms(1, 0.0, retry_after_ms=299_999) == 299_999


@pytest.mark.spec("K4")
@given(policies, failure_counts, draws, st.none() | st.integers(0, 10**15))
def test_no_delay_is_negative_or_over_the_ceiling(
    policy: Retry, failures: int, draw: float, retry_after_ms: int | None
) -> None:
    delay_ms = policy.delay_ms(failures, draw, retry_after_ms)
    assert delay_ms >= 0 and (policy.ceiling_s is None or delay_ms <= ms(policy.ceiling_s))


@pytest.mark.spec("K4")
@given(policies, failure_counts, draws)
def test_backoff_stays_under_the_cap(policy: Retry, failures: int, draw: float) -> None:
    assert policy.delay_ms(failures, draw) <= ms(policy.cap_s)


@pytest.mark.spec("K4", "004.4")
@given(policies, failure_counts, draws, st.integers(0, 10**7))
def test_the_delay_is_the_longer_of_backoff_and_retry_after(
    policy: Retry, failures: int, draw: float, retry_after_ms: int
) -> None:
    longer = max(policy.delay_ms(failures, draw), retry_after_ms)
    cut = longer if policy.ceiling_s is None else min(ms(policy.ceiling_s), longer)
    assert policy.delay_ms(failures, draw, retry_after_ms) == cut


@pytest.mark.spec("K4")
@given(policies, failure_counts, draws)
def test_more_failures_never_shorten_the_wait(policy: Retry, failures: int, draw: float) -> None:
    assert policy.delay_ms(failures, draw) <= policy.delay_ms(failures + 1, draw)


@pytest.mark.spec("K4")
@given(policies, failure_counts, draws, seconds)
def test_a_higher_cap_never_shortens_the_wait(policy: Retry, failures: int, draw: float, more_s: float) -> None:
    higher = Retry(
        policy.attempts,
        policy.base_s,
        policy.multiplier,
        policy.cap_s + more_s,
        policy.jitter,
        policy.jitter_max_s,
        policy.ceiling_s,
    )
    assert policy.delay_ms(failures, draw) <= higher.delay_ms(failures, draw)


@pytest.mark.spec("K4")
def test_a_huge_failure_count_reaches_the_cap_instead_of_overflowing() -> None:
    assert Retry(jitter="none").delay_ms(10**9, 0.0) == 60_000
    assert Retry(jitter="none", base_s=0).delay_ms(10**9, 0.0) == 0


@pytest.mark.spec("K4")
@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"attempts": 0}, "attempts"),
        ({"base_s": -1}, "base_s"),
        ({"base_s": math.nan}, "base_s"),
        ({"cap_s": math.inf}, "cap_s"),
        ({"ceiling_s": -0.5}, "ceiling_s"),
        ({"multiplier": 0.5}, "multiplier"),
        ({"jitter": "some"}, "jitter"),
        ({"jitter": "additive", "jitter_max_s": -1}, "jitter_max_s"),
        ({"jitter_max_s": 1}, "additive"),
    ],
)
def test_a_policy_that_cannot_work_is_refused_in_one_sentence(fields: dict[str, object], word: str) -> None:
    with pytest.raises(ValueError, match=word) as refused:
        Retry(**fields)  # type: ignore[arg-type]
    assert str(refused.value).endswith(".") and "\n" not in str(refused.value)

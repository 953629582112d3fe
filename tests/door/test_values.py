"""A policy, a provider or an app that cannot work is refused where it is made, in one sentence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast import App, Breaker, Provider, Retry
from holdfast.errors import HoldfastError

pytestmark = pytest.mark.spec("K6")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: App("Shop!"), "The app name 'Shop!' must be a small letter"),
        (lambda: Retry(attempts=0), "attempts"),
        (lambda: Breaker(open_above=50), "A breaker opens above a share from 0 up to but not including 1, not 50."),
        (lambda: Provider("bank", effects="tokens"), "'bank' has effects 'tokens'; they are token, lookup or neither."),  # type: ignore[arg-type]
        (
            lambda: Provider("bank", per_minute=0),
            "The provider 'bank' has a per_minute of 0; it must be a whole number",
        ),
        (lambda: Provider("bank", timeout_s=0), "The provider 'bank' has a timeout_s of 0; it must be"),
        (lambda: Provider(""), "needs a name, which is a text."),
        (lambda: Provider("bank", breaker="on"), "'bank' has a breaker of 'on'; write breaker=Breaker(...)."),  # type: ignore[arg-type]
        (lambda: Retry(attempts="5"), "A retry policy needs a number for attempts, not '5'."),  # type: ignore[arg-type]
        (lambda: Breaker(window="9"), "A breaker needs a number for window, not '9'."),  # type: ignore[arg-type]
        (lambda: Retry(multiplier=None), "A retry policy needs a number for multiplier, not None."),  # type: ignore[arg-type]
        (lambda: Retry(base_s=1e30), "A retry policy's base_s of 1e+30 must be at most a hundred years."),
        (lambda: Retry(base_s=120), "A retry policy's base_s of 120 is above its cap_s of 60; give cap_s too."),
        (lambda: Retry(attempts=10**30), "must be at most 2147483647."),
        (lambda: Breaker(trials=None), "A breaker needs a number for trials, not None."),  # type: ignore[arg-type]
        (lambda: Breaker(window=20_000), "A breaker needs a window of at most 10000 calls, not 20000."),
        (lambda: Breaker(inclusive="no"), "A breaker's inclusive of 'no' must be True or False."),  # type: ignore[arg-type]
        (lambda: Provider("bank", timeout_s=True), "has a timeout_s of True; it must be a number of seconds above 0."),
        (lambda: Provider("bank", many_hosts="no"), "has many_hosts of 'no'; it must be True or False."),  # type: ignore[arg-type]
        (lambda: Provider("bank", probe=5), "'bank' has a probe of 5, which is no function."),  # type: ignore[arg-type]
        (lambda: App(None), "The app name 'None' must be a small letter"),  # type: ignore[arg-type]
    ],
)
def test_a_value_that_cannot_work_is_named(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises((ValueError, HoldfastError)) as refused:
        make()
    assert sentence in str(refused.value)

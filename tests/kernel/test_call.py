"""Permission to call: what was taken for a call that is not made is given back."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import App, Breaker, Provider
from holdfast.core.breaker import BreakerState, Gate
from holdfast.core.failure import from_status
from holdfast.kernel.call import PLACE_SLACK_MS, _failed, admit, give_back, hold_max_ms, place_ms
from holdfast.kernel.record import CallPermit, Report, _asked_ms
from holdfast.tables import providers
from tests.kernel.places import Deploy

NAME = "bank"


@pytest.mark.spec("K9")
@pytest.mark.parametrize(
    "limits", [{"breaker": Breaker()}, {"concurrency": 1}, {"breaker": Breaker(), "concurrency": 1}]
)
async def test_a_trial_and_a_place_are_free_again_for_the_next(deploy: Deploy, limits: dict[str, Any]) -> None:
    world, provider = await deploy(App("calls")), Provider(NAME, **limits)
    kernel = world.kernel
    half_open = BreakerState(gate=Gate.HALF_OPEN, generation=3)
    if provider.breaker is not None:
        async with kernel.store.transaction() as tx:
            row = await providers.lock(tx, NAME, kernel.now())
            await providers.swap(tx, NAME, row.state, half_open, kernel.now())
    permit = await admit(kernel, provider, 1_000)
    async with kernel.store.reading() as tx:
        taken = await providers.read(tx, NAME)
    assert [id for id, _ in taken.state.permits] == ([permit.id] if provider.breaker else [])
    assert list(taken.places) == ([permit.id] if provider.concurrency else [])
    await give_back(kernel, provider, permit)
    async with kernel.store.reading() as tx:
        free = await providers.read(tx, NAME)
    assert (free.state.permits, dict(free.places)) == ((), {})


def test_how_long_a_place_and_a_hold_last() -> None:
    assert place_ms(Provider(NAME, timeout_s=3), None) == 3_000 + PLACE_SLACK_MS
    assert place_ms(Provider(NAME, timeout_s=3), 0.5) == 500 + PLACE_SLACK_MS
    assert hold_max_ms(Provider(NAME)) is None or Provider(NAME).hold_max_s is not None
    assert hold_max_ms(Provider(NAME, hold_max_s=1.5)) == 1_500


@pytest.mark.spec("K5")
@pytest.mark.parametrize(
    ("error", "cut_after_ms", "words"),
    [
        (TimeoutError("the library's own"), None, "the library's own"),
        (TimeoutError(), 2_500, "The provider 'api' did not answer within 2.5 s."),
        (ConnectionResetError("cut off"), 2_500, "cut off"),
    ],
)
def test_only_a_call_that_was_cut_off_says_for_how_long_it_was_waited(
    error: Exception, cut_after_ms: int | None, words: str
) -> None:
    assert words in _failed(Provider("api"), error, 0, cut_after_ms).failure.message


@pytest.mark.spec("K9")
@pytest.mark.parametrize(
    ("options", "status", "retry_after_ms", "asked_ms"),
    [
        ({}, 429, 90_000, 90_000),
        ({"retry_after_max_s": 60}, 429, 90_000, 60_000),
        ({"many_hosts": True}, 429, 90_000, 0),
        ({}, 429, None, 0),
        ({}, 503, 90_000, 90_000),
        ({}, 503, None, 0),
        ({}, 500, 90_000, 0),
    ],
)
def test_one_of_many_hosts_asks_to_wait_for_itself_alone(
    options: dict[str, Any], status: int, retry_after_ms: int | None, asked_ms: int
) -> None:
    headers = {} if retry_after_ms is None else {"Retry-After": str(retry_after_ms // 1_000)}
    failed = from_status(status, "later", headers, now_ms=0)
    report = Report(Provider(NAME, **options), CallPermit("id", 0), None, 0, failed)
    assert _asked_ms(report) == asked_ms

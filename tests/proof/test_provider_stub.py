"""The simulated provider: effects are real, answers are not to be trusted, failures say what is known."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast.errors import CallError
from holdfast_proof.loop import SimLoop
from holdfast_proof.provider_stub import Dedup, ProviderFaults, ProviderStub

HOUR_MS = 3_600_000
Scenario = Callable[[SimLoop, ProviderStub], Awaitable[None]]


def play(
    scenario: Scenario, faults: ProviderFaults | None = None, *, dedup: Dedup = Dedup.TOKEN, retention_ms: int = HOUR_MS
) -> ProviderStub:
    with SimLoop(1) as loop:
        dice = loop.stream("provider")
        provider = ProviderStub(loop, dice, dedup=dedup, faults=faults, retention_ms=retention_ms)

        async def main() -> None:
            await scenario(loop, provider)

        loop.run(main(), until_ms=10 * HOUR_MS)
        return provider


async def failure_of(provider: ProviderStub, token: str = "t") -> CallError:
    with pytest.raises(CallError) as caught:
        await provider.send(token, b"")
    return caught.value


def test_a_token_acts_once_within_its_retention_and_again_after_it() -> None:
    async def scenario(loop: SimLoop, provider: ProviderStub) -> None:
        first = await provider.send("t", {"n": 1})
        assert await provider.send("t", {"n": 1}) == first
        assert len(provider.effects_of("t")) == 1
        await asyncio.sleep(3601)
        assert await provider.send("t", {"n": 1}) != first

    provider = play(scenario)
    assert len(provider.effects_of("t")) == 2
    assert [event.kind for event in provider.log].count("deduplicated") == 1


def test_without_tokens_every_send_acts_and_only_lookup_providers_can_be_asked() -> None:
    async def scenario(loop: SimLoop, provider: ProviderStub) -> None:
        if provider.dedup is Dedup.LOOKUP:
            assert await provider.lookup("t") is None
        first = await provider.send("t", b"")
        assert await provider.send("t", b"") != first
        if provider.dedup is Dedup.LOOKUP:
            assert await provider.lookup("t") == first
        else:
            with pytest.raises(CallError) as caught:
                await provider.lookup("t")
            assert caught.value.failure.error_class == "LOOKUP_UNSUPPORTED"

    for dedup in (Dedup.LOOKUP, Dedup.NEITHER):
        assert len(play(scenario, dedup=dedup).effects) == 2


@pytest.mark.parametrize(
    ("faults", "error_class", "ambiguous", "counts", "retryable", "effects"),
    [
        (ProviderFaults(unreachable=1), "NETWORK_UNREACHABLE", False, True, True, 0),
        (ProviderFaults(limited=1), "RATE_LIMITED", False, False, True, 0),
        (ProviderFaults(refused=1), "UPSTREAM_UNPROCESSABLE", False, False, False, 0),
        (ProviderFaults(error_before=1), "UPSTREAM_UNAVAILABLE", True, True, True, 0),
        (ProviderFaults(error_after=1), "UPSTREAM_INTERNAL", True, True, True, 1),
        (ProviderFaults(silent=1, silent_lands=0), "NETWORK_TIMEOUT", True, True, True, 0),
        (ProviderFaults(silent=1, silent_lands=1), "NETWORK_TIMEOUT", True, True, True, 1),
    ],
)
def test_each_failure_says_what_the_caller_can_know(
    faults: ProviderFaults, error_class: str, ambiguous: bool, counts: bool, retryable: bool, effects: int
) -> None:
    async def scenario(loop: SimLoop, provider: ProviderStub) -> None:
        failure = (await failure_of(provider)).failure
        assert failure.error_class == error_class
        assert (failure.ambiguous, failure.faults, failure.retryable) == (ambiguous, counts, retryable)
        await asyncio.sleep(120)

    assert len(play(scenario, faults).effects) == effects


def test_an_effect_lands_after_the_timeout() -> None:
    async def scenario(loop: SimLoop, provider: ProviderStub) -> None:
        for n in range(20):
            await failure_of(provider, f"t{n}")
        await asyncio.sleep(120)

    provider = play(scenario, ProviderFaults(silent=1, silent_lands=1, late_ms_max=60_000))
    timed_out = {event.call: event.at_ms for event in provider.log if event.kind == "timeout"}
    late = [effect for effect in provider.effects if effect.at_ms > timed_out[effect.call]]
    assert len(provider.effects) == 20 and len(late) > 5


def test_an_effect_lands_although_its_caller_is_dead() -> None:
    async def scenario(loop: SimLoop, provider: ProviderStub) -> None:
        host = loop.host("caller")
        host.spawn(provider.send("t", b"paid"))
        while not provider.log:  # noqa: ASYNC110
            await asyncio.sleep(0)
        host.kill()
        assert provider.effects == []
        await asyncio.sleep(10)

    provider = play(scenario)
    (effect,) = provider.effects
    assert (effect.token, effect.payload, effect.host) == ("t", b"paid", "caller#1")
    assert provider.log[-1].kind == "answer_unheard"


def test_a_limited_provider_refuses_everyone_until_the_time_it_named() -> None:
    async def scenario(loop: SimLoop, provider: ProviderStub) -> None:
        failure = (await failure_of(provider)).failure
        heard_ms = loop.now_ms
        provider.faults = ProviderFaults()
        assert failure.retry_after_ms is not None and failure.status == 429
        assert (await failure_of(provider, "other")).failure.status == 429
        limited_until_ms = next(event.retry_at_ms for event in provider.log if event.kind == "answer")
        assert limited_until_ms is not None and heard_ms + failure.retry_after_ms >= limited_until_ms
        await asyncio.sleep((heard_ms + failure.retry_after_ms - loop.now_ms) / 1000)
        await provider.send("t", b"")

    assert len(play(scenario, ProviderFaults(limited=1)).effects) == 1


def test_a_late_effect_of_a_token_is_still_deduplicated() -> None:
    async def scenario(loop: SimLoop, provider: ProviderStub) -> None:
        await failure_of(provider)
        provider.faults = ProviderFaults()
        await provider.send("t", b"")
        await asyncio.sleep(120)

    for dedup, effects in ((Dedup.TOKEN, 1), (Dedup.LOOKUP, 2), (Dedup.NEITHER, 2)):
        assert len(play(scenario, ProviderFaults(silent=1, silent_lands=1), dedup=dedup).effects) == effects

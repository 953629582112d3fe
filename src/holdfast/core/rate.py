"""How many calls a provider takes, a minute and at once, as values that all processes share.

By default no minute, wherever it begins, sees more calls than the limit: the calls of the last minute are remembered
as (time, how many), at most sixty-two entries however high the limit is. A call counts from its permission on, and
comes to the provider a moment later: it counts for that moment longer, so that no minute of the provider's sees more
either. With a `burst` it is a bucket instead: it starts full, holds so many calls, and is refilled evenly, so that a
minute may see the limit and the burst together.

Of calls at once each has a place, taken before the call and given back after it. One whose holder died comes free when
its time is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

MINUTE_MS = 60_000
ON_ITS_WAY_MS = 1_000
"""A permitted call comes to its provider within this time, also where the machine is busy."""
COUNTS_MS = MINUTE_MS + ON_ITS_WAY_MS
# Up to this many calls a minute each is remembered by itself; above it, those of one second share an entry.
EXACT_MAX = 60
COARSE_MS = 1_000


class Usage(NamedTuple):
    """What was used of the limit. `recent` are (time, calls), oldest first; `tokens` is what a bucket had at
    `tokens_at`."""

    recent: tuple[tuple[int, int], ...] = ()
    tokens: float | None = None
    tokens_at: int | None = None


def room(usage: Usage, per_minute: int, burst: int | None, now: int) -> int:
    """How many calls may begin at this moment."""
    if burst is not None:
        return int(_tokens(usage, per_minute, burst, now))
    return max(0, per_minute - sum(calls for _, calls in _live(usage.recent, now)))


def spend(usage: Usage, per_minute: int, burst: int | None, now: int) -> Usage | int:
    """The usage with one more call in it; or, if there is no room, when there will be."""
    if burst is not None:
        return _spend_token(usage, per_minute, burst, now)
    live = _live(usage.recent, now)
    if sum(calls for _, calls in live) >= per_minute:
        return live[0][0] + COUNTS_MS
    return Usage(recent=_with_call(live, per_minute, now))


def _live(recent: Iterable[tuple[int, int]], now: int) -> tuple[tuple[int, int], ...]:
    return tuple((at, calls) for at, calls in recent if at + COUNTS_MS > now)


def _with_call(live: tuple[tuple[int, int], ...], per_minute: int, now: int) -> tuple[tuple[int, int], ...]:
    # Rounded up, and never before the last entry: an entry may leave the minute too late, but never too early.
    at = now if per_minute <= EXACT_MAX else -(-now // COARSE_MS) * COARSE_MS
    if live:
        at = max(at, live[-1][0])
        if live[-1][0] == at:
            return (*live[:-1], (at, live[-1][1] + 1))
    return (*live, (at, 1))


def _spend_token(usage: Usage, per_minute: int, burst: int, now: int) -> Usage | int:
    tokens = _tokens(usage, per_minute, burst, now)
    if tokens < 1:
        return now + int((1 - tokens) * MINUTE_MS / per_minute) + 1
    return Usage(tokens=tokens - 1, tokens_at=now)


def _tokens(usage: Usage, per_minute: int, burst: int, now: int) -> float:
    if usage.tokens is None or usage.tokens_at is None:
        return float(burst)
    return min(float(burst), usage.tokens + max(0, now - usage.tokens_at) * per_minute / MINUTE_MS)


Places = Mapping[str, int]
"""Permit -> when the place comes free by itself, in ms."""


def free_places(places: Places, limit: int, now: int) -> int:
    return max(0, limit - len(_held(places, now)))


def take_place(places: Places, limit: int, now: int, permit: str, until: int) -> Places | None:
    """The places with one more taken; None if all are."""
    return _held(places, now) | {permit: until} if free_places(places, limit, now) else None


def give_place_back(places: Places, now: int, permit: str) -> Places:
    return {holder: until for holder, until in _held(places, now).items() if holder != permit}


def _held(places: Places, now: int) -> dict[str, int]:
    return {permit: until for permit, until in places.items() if until > now}

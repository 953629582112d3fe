"""The places of a provider that takes only so many calls at once: who has one, and until when it is theirs.

A place is taken before a call and given back after it. One whose holder died comes free when its time is over."""

from __future__ import annotations

from collections.abc import Mapping

Places = Mapping[str, int]
"""Permit -> when the place comes free by itself, in ms."""


def free(places: Places, limit: int, now: int) -> int:
    return max(0, limit - len(_held(places, now)))


def take(places: Places, limit: int, now: int, permit: str, until: int) -> Places | None:
    """The places with one more taken; None if all are."""
    return _held(places, now) | {permit: until} if free(places, limit, now) else None


def give_back(places: Places, now: int, permit: str) -> Places:
    return {holder: until for holder, until in _held(places, now).items() if holder != permit}


def _held(places: Places, now: int) -> dict[str, int]:
    return {permit: until for permit, until in places.items() if until > now}

"""What the simulated callers ask for: versions of a few changelists, and the ways in which callers get them wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from holdfast_systems.review.changes import UrlSource
from holdfast_systems.review.reviews import Recipient, Request
from holdfast_systems.review.sim.engine import BAD_MAILBOX, NO_ADDRESS, url_of

PEOPLE = ("ann@mail.test", "bob@mail.test", "cyd@mail.test", "dan@mail.test")


@dataclass(slots=True)
class ReviewWish:
    """One request of a caller, who asks until there is an answer. `answer`: new, known, known otherwise, or a refusal's
    code; `job` the one that the caller was told of."""

    at_ms: int
    request: Request
    answer: str | None = None
    asked_ms: int = 0
    answered_ms: int = 0
    job: str | None = None


def draw_wishes(dice: Random, faults_s: int) -> list[ReviewWish]:
    """One to three changelists, each with reruns, repetitions, conflicts and refusals."""
    last_ms = int(faults_s * 600)
    wishes = [wish for number in range(dice.choice((1, 1, 2, 3))) for wish in _changelist(dice, number, last_ms)]
    return sorted(wishes, key=lambda wish: wish.at_ms)


def _changelist(dice: Random, number: int, last_ms: int) -> Iterator[ReviewWish]:
    version = dice.choice((1, 1, 3))
    at_ms = dice.randint(0, last_ms)
    first = _request(dice, f"cl-{number}", version, f"key-{number}")
    yield ReviewWish(at_ms, first)
    if dice.random() < 0.5:  # a second click, at the same moment
        yield ReviewWish(at_ms, first)
    if dice.random() < 0.2:  # the key again for something else
        yield ReviewWish(at_ms + dice.randint(0, 90_000), replace(first, recipients=(Recipient(PEOPLE[0]),), title=""))
    if dice.random() < 0.3:  # the same version under another key, perhaps asked for differently
        other = _request(dice, f"cl-{number}", version, f"key-{number}-other")
        same = replace(first, idempotency_key=other.idempotency_key)
        yield ReviewWish(at_ms + dice.randint(0, 400_000), same if dice.random() < 0.6 else other)
    if dice.random() < 0.15:  # a higher one, not asked for as a rerun
        yield ReviewWish(
            at_ms + dice.randint(0, 200_000), _request(dice, f"cl-{number}", version + 1, f"key-{number}-plain")
        )
    if dice.random() < 0.4:
        yield from _reruns(dice, number, version, at_ms)


def _reruns(dice: Random, number: int, version: int, at_ms: int) -> Iterator[ReviewWish]:
    """Higher versions, and one that is too low by then if it comes late."""
    for step in range(dice.choice((1, 1, 2))):
        higher = _request(dice, f"cl-{number}", version + 2 * (step + 1), f"key-{number}-rerun-{step}")
        yield ReviewWish(at_ms + dice.randint(0, 300_000), replace(higher, rerun=True))
    if dice.random() < 0.5:
        lower = _request(dice, f"cl-{number}", version + 1, f"key-{number}-lower")
        yield ReviewWish(at_ms + dice.randint(0, 300_000), replace(lower, rerun=True))


def _request(dice: Random, changelist: str, version: int, key: str) -> Request:
    broken = dice.choice((0, 0, 0, 0, 0, 1, 2))
    source = UrlSource(type="url", url=url_of(changelist, version, dice.choice((1, 1, 2, 3)), broken))
    told = [Recipient(name, dice.random() < 0.8) for name in dice.sample(PEOPLE, dice.choice((1, 2, 2, 3)))]
    if dice.random() < 0.2:
        told.insert(dice.randint(0, len(told)), Recipient(dice.choice((BAD_MAILBOX, NO_ADDRESS)), dice.random() < 0.5))
    title = f"{changelist} v{version}" if dice.random() < 0.7 else ""
    return Request(changelist, version, key, tuple(told), source, title)

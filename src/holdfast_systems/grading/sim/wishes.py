"""What the learners of a seed will hand in: alone, twice at once, again under the same key, with another text under a
used key, close to their deadline, or many together while the model is down. Drawn before the seed begins."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from random import Random
from typing import Any

from holdfast_proof.provider_stub import ProviderFaults
from holdfast_systems.grading.sim.apps import NOISE

USERS = ("ann", "bob")
SLA_S = (90.0, 300.0, 600.0)
HURRIED_S = (2.0, 25.0)


@dataclass(slots=True)
class GradingWish:
    """One POST, remembered until it is answered."""

    at_ms: int
    user: str
    key: str
    skill: str
    payload: dict[str, Any]
    sla_s: float
    clicks: int = 1
    answers: int = 0

    @property
    def is_done(self) -> bool:
        return self.answers >= self.clicks


@dataclass(frozen=True, slots=True)
class AnswerToLearner:
    """What a learner was told: the submission, or (`id` is None) that the key is taken by another payload."""

    at_ms: int
    user: str
    key: str
    payload: str
    id: str | None
    request_id: str | None


def draw_wishes(dice: Random, faults_s: int, providers: dict[str, ProviderFaults]) -> list[GradingWish]:
    """Everything the learners want, in order of time. May make a provider ill, for a burst of work that needs it."""
    wishes = [_wish(dice, number, dice.randint(0, faults_s * 600)) for number in range(dice.randint(1, 4))]
    if dice.random() < 0.3:
        wishes += _burst(dice, providers)
    if dice.random() < 0.5:
        for number in range(dice.randint(1, 2)):
            hurried = _wish(dice, 200 + number, dice.randint(0, faults_s * 600))
            hurried.sla_s = dice.uniform(*HURRIED_S)
            wishes.append(hurried)
    for wish in list(wishes):
        if dice.random() < 0.35:
            wishes.append(_again(dice, wish))
    return sorted(wishes, key=lambda wish: wish.at_ms)


def _wish(dice: Random, number: int, at_ms: int) -> GradingWish:
    work = f"work-{number}-{dice.getrandbits(24):06x}"
    skill = "speaking" if dice.random() < 0.4 else "writing"
    payload = _spoken(dice, work) if skill == "speaking" else _written(dice, work)
    key = str(uuid.UUID(int=dice.getrandbits(128), version=4))
    clicks = dice.choice((1, 1, 2))
    return GradingWish(at_ms, dice.choice(USERS), key, skill, payload, dice.choice(SLA_S), clicks)


def _written(dice: Random, work: str) -> dict[str, Any]:
    words = " ".join(["the", "sea", "was", "calm"] * dice.choice((2, 12, 30)))
    return {"text": f"{work} {words}", "taskType": dice.choice(("email", "essay")), "questionId": "q-1"}


def _spoken(dice: Random, work: str) -> dict[str, Any]:
    name = f"{work}-{NOISE}" if dice.random() < 0.1 else work
    return {"audioUrl": f"https://files.sim/{name}.wav", "durationSeconds": 1, "questionId": "q-2", "part": 1}


def _burst(dice: Random, providers: dict[str, ProviderFaults]) -> list[GradingWish]:
    """Many texts at once, mostly while the model is failing: what a breaker is for."""
    at_ms = dice.randint(0, 60_000)
    if dice.random() < 0.8:
        providers["llm"] = ProviderFaults(
            error_before=dice.choice((0.6, 0.9)), latency_ms_max=dice.choice((100, 3_000))
        )
    wishes = [_wish(dice, 100 + number, at_ms + dice.randint(0, 20_000)) for number in range(dice.randint(4, 6))]
    for number, wish in enumerate(wishes):
        wish.skill, wish.payload = "writing", _written(dice, f"work-{100 + number}-{wish.key[:6]}")
    return wishes


def _again(dice: Random, wish: GradingWish) -> GradingWish:
    """The same key once more: soon or late, with the same payload or with another."""
    at_ms = wish.at_ms + dice.choice((0, dice.randint(0, 2_000), dice.randint(0, 90_000)))
    payload = wish.payload
    if dice.random() < 0.35:
        payload = {**payload, "questionId": "q-9"}
    return GradingWish(at_ms, wish.user, wish.key, wish.skill, payload, wish.sla_s)

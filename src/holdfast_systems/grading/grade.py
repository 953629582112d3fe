"""What a grade is: an overall score, a band, four criteria with a sentence each, and signals.

Bands follow the overall score (0 to 10):

    A1 < 2.5 <= A2 < 4.0 <= B1 < 6.0 <= B2 < 8.5 <= C1

Signals name what a person should look at (`very_short`, `not_english`, `prompt_injection`, ...); one signal
is enough to flag a grade for audit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

Band = Literal["A1", "A2", "B1", "B2", "C1"]
TaskType = Literal["email", "essay"]

BANDS: tuple[Band, ...] = get_args(Band)
CRITERIA = ("taskAchievement", "coherence", "lexis", "grammar")
_BAND_FROM: tuple[tuple[float, Band], ...] = ((8.5, "C1"), (6.0, "B2"), (4.0, "B1"), (2.5, "A2"))


@dataclass(frozen=True, slots=True)
class Criterion:
    """One criterion's score, 0 to 10, and what the learner should know about it."""

    score: float
    feedback: str


@dataclass(frozen=True, slots=True)
class Grade:
    """A finished grade. `runs` are the separate estimates of the overall score behind it; tokens, their cost."""

    overall_score: float
    band: Band
    criteria: dict[str, Criterion]
    signals: tuple[str, ...]
    method: Literal["offline", "llm"]
    runs: tuple[float, ...]
    prompt_tokens: int = 0
    completion_tokens: int = 0
    # What was measured, in standard deviations from the usual. Kept so that reviews can teach the scale.
    features: Mapping[str, float] = field(default_factory=dict)
    # How far a person's score probably lies from a measured one, in points; None where nothing was measured.
    doubt: float | None = None

    @property
    def feedback(self) -> str:
        return " ".join(criterion.feedback for criterion in self.criteria.values())

    def wire(self) -> dict[str, Any]:
        """The criteria, feedback and signals as a callback's `result` carries them."""
        return {
            "criteria": {
                name: {"score": criterion.score, "feedback": criterion.feedback}
                for name, criterion in self.criteria.items()
            },
            "feedback": self.feedback,
            "signals": list(self.signals),
            "method": self.method,
            "features": dict(self.features) or None,
        }


def band_of(score: float) -> Band:
    """The band of an overall score."""
    return next((band for least, band in _BAND_FROM if score >= least), "A1")


def band_range(band: Band) -> tuple[float, float]:
    """The scores of a band: from the first, below the second."""
    starts = {name: least for least, name in _BAND_FROM} | {"A1": 0.0}
    later = [starts[name] for name in BANDS[BANDS.index(band) + 1 :]]
    return starts[band], later[0] if later else 10.0


def bands_apart(one: Band, other: Band) -> int:
    return abs(BANDS.index(one) - BANDS.index(other))


def to_half(score: float) -> float:
    """The score within 0 to 10, rounded to the nearest half point; a quarter rounds up."""
    return min(10.0, max(0.0, int(score * 2 + 0.5) / 2))


def grade_of(
    criteria: dict[str, Criterion],
    *,
    signals: Sequence[str] = (),
    method: Literal["offline", "llm"],
    runs: Sequence[float] = (),
) -> Grade:
    """The grade whose overall score is the mean of its four criteria, in half points."""
    assert tuple(criteria) == CRITERIA
    overall = to_half(sum(criterion.score for criterion in criteria.values()) / len(criteria))
    return Grade(overall, band_of(overall), criteria, tuple(signals), method, tuple(runs) or (overall,))

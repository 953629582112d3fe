"""Settles an instructor's review: pure, so that the API, the simulator and the tests ask the same rule.

within 0.5 points and one band of the AI   final = 0.4 AI + 0.6 human, mode hybrid
otherwise                                  the human's grade stands, mode human, flagged for audit
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Literal

from holdfast_systems.grading.grade import BANDS, CRITERIA, Band, band_of, bands_apart

POINTS_APART_MAX = Decimal("0.5")
BANDS_APART_MAX = 1
AI_WEIGHT = Decimal("0.4")
HUMAN_WEIGHT = Decimal("0.6")
_CENT = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class ReviewSettlement:
    """The final result of a reviewed submission."""

    final_score: float
    band: Band
    mode: Literal["hybrid", "human"]
    audit_flag: bool


def disagreement(score: float, band: Band | None, criteria: Mapping[str, float] | None) -> str | None:
    """Why a grade contradicts itself, in a sentence; None if it does not. The band is that of the score, and the score
    lies within half a point of the mean of the four criteria."""
    if band is not None and band != band_of(score):
        return f"A score of {score:g} is in band {band_of(score)}, not {band}."
    if criteria is None:
        return None
    if set(criteria) != set(CRITERIA):
        return f"The criteria must be these four: {', '.join(CRITERIA)}."
    mean = sum((Decimal(str(given)) for given in criteria.values()), Decimal(0)) / len(CRITERIA)
    if abs(mean - Decimal(str(score))) > POINTS_APART_MAX:
        return f"The four criteria have a mean of {mean:.2f}, more than half a point from the score of {score:g}."
    return None


def weigh_criteria(
    ai: Mapping[str, Any] | None, human: Mapping[str, float], mode: Literal["hybrid", "human"]
) -> dict[str, Any]:
    """The criteria of the final grade: the human's, or where the two agree both, weighed as the score is. What the AI
    wrote about a criterion stays with it."""
    final: dict[str, Any] = {}
    for name, score in human.items():
        known = (ai or {}).get(name)
        known = known if isinstance(known, Mapping) else {}
        theirs = known.get("score")
        if mode == "hybrid" and isinstance(theirs, int | float):
            exact = AI_WEIGHT * Decimal(str(theirs)) + HUMAN_WEIGHT * Decimal(str(score))
            score = float(exact.quantize(_CENT, ROUND_HALF_UP))
        final[name] = {**known, "score": score}
    return final


def settle_review(
    ai_score: float, ai_band: Band, human_score: float, human_band: Band | None = None
) -> ReviewSettlement:
    """The final score and band. A review without a band takes the band of its score.

    Scores are compared as written in decimal: 6.1 and 6.6 are 0.5 apart, whatever binary floats say.
    """
    ai, human = Decimal(str(ai_score)), Decimal(str(human_score))
    for score in (ai, human):
        if not 0 <= score <= 10:
            raise ValueError(f"A score lies between 0 and 10; {score} does not.")
    theirs = human_band or band_of(human_score)
    if abs(ai - human) > POINTS_APART_MAX or bands_apart(ai_band, theirs) > BANDS_APART_MAX:
        return ReviewSettlement(human_score, theirs, "human", audit_flag=True)
    final = float((AI_WEIGHT * ai + HUMAN_WEIGHT * human).quantize(_CENT, ROUND_HALF_UP))
    return ReviewSettlement(final, _between(band_of(final), ai_band, theirs), "hybrid", audit_flag=False)


def _between(band: Band, one: Band, other: Band) -> Band:
    """`band`, but never outside the two that were given: neither grader asked for it."""
    low, high = sorted((BANDS.index(one), BANDS.index(other)))
    return BANDS[min(max(BANDS.index(band), low), high)]

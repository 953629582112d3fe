"""Settles an instructor's review: pure, so that the API, the simulator and the tests ask the same rule.

within 0.5 points and one band of the AI   final = 0.4 AI + 0.6 human, mode hybrid
otherwise                                  the human's grade stands, mode human, flagged for audit
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Literal

from holdfast_systems.grading.grade import BANDS, Band, band_of, bands_apart

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

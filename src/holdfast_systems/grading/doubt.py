"""How far a person's score probably lies from a measured one, in points. Nothing here was fitted to anybody's essays.

Three things make a measured score wrong, and each can be told from the text alone:

    drawn back   markers give less extreme scores than measurements do: of a distance from the usual only a part is
                 the text's, the rest is chance
    uneven       parts that disagree: nobody knows how much each should count, and the farther they lie apart the
                 more that matters
    little       rates over few words: luck evens out in long texts only
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

from holdfast_systems.grading.scale import MEAN_OF_PEOPLE, POINTS_PER_DEVIATION, spread_of_sum, weights_of

# Of a distance from the usual, so much is the text's and the rest is chance: the correlation with people's scores.
_LIKELY_SHARE = 0.6
# How wrong a weight may be, as a share of it. Small: a person's score need not follow any of the parts.
_WEIGHT_ERROR = 0.3
# Points by which luck moves the score of a text of so many words.
_LUCK_POINTS, _LUCK_WORDS = 0.5, 250


def doubt_of(score: float, parts: Mapping[str, float], words: int) -> float:
    """The expected distance, in points of the overall score."""
    drawn_back = (1 - _LIKELY_SHARE) * abs(score - MEAN_OF_PEOPLE)
    little = _LUCK_POINTS * sqrt(_LUCK_WORDS / max(1, words))
    return sqrt(drawn_back**2 + _unevenness(parts) ** 2 + little**2)


def _unevenness(parts: Mapping[str, float]) -> float:
    """How far the score would move if every weight were wrong by its usual error, independently."""
    weights = weights_of(parts)
    mean = sum(weight * parts[name] for name, weight in weights.items()) / sum(weights.values())
    variance = sum((weight * (parts[name] - mean)) ** 2 for name, weight in weights.items())
    return _WEIGHT_ERROR * POINTS_PER_DEVIATION * sqrt(variance) / spread_of_sum(weights)

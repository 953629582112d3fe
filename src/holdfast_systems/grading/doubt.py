"""How far a person's score probably lies from a measured one, in points. Nothing here was fitted to anybody's essays.

Two things make a measured score wrong, and each can be told from the text alone:

    drawn back   markers give less extreme scores than measurements do: of a distance from the usual only a part is
                 the text's, the rest is chance. It is the distance of the plain sum: the scale is bent after it, and
                 the score comes nearer to people's by that, or goes away from them
    little       rates over few words: luck evens out in long texts only
"""

from __future__ import annotations

from math import sqrt

from holdfast_systems.grading.scale import MEAN_OF_PEOPLE, POINTS_PER_DEVIATION

# Of a distance from the usual, so much is the text's and the rest is chance: the correlation with people's scores,
# divided by how much wider than theirs our scores are spread.
_LIKELY_SHARE = 0.5
# Points by which luck moves the score of a text of so many words.
_LUCK_POINTS, _LUCK_WORDS = 0.3, 250


def doubt_of(score: float, place: float, words: int) -> float:
    """The expected distance, in points, of the overall score of a text whose sum has this `place` among the usual."""
    likely = MEAN_OF_PEOPLE + _LIKELY_SHARE * POINTS_PER_DEVIATION * place
    little = _LUCK_POINTS * sqrt(_LUCK_WORDS / max(1, words))
    return sqrt((score - likely) ** 2 + little**2)

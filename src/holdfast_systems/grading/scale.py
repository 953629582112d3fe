"""From measurements to a score between 0 and 10. Nothing here was fitted to anybody's essays.

Seven measurements that go with a marker's judgement count the same, each in standard deviations from what learners
usually write; a language model's surprisal counts three times. The sum is put on the scale so that learners' texts get
5.4 in the mean, as people give, and are spread a little wider than theirs. What says little inside that range (how
advanced the words are, how many clauses there are) counts at its ends only: short sentences without a second clause
are A2 however correct, and what is correct and no more ends with B2: C1 is for rare words well used. Whatever else
is added to the plain sum has to earn its place on made-up learners (`tests/systems/grading/test_scale.py`): most rules
that sounded right cost agreement.

    variety of words, misspelt words, slips, length, kinds of links, share of common English words, distance from a
    natural sentence length: sign +1 or -1 each                                                      `_USUAL`

Why so: docs/decisions/0021-what-a-grade-is-made-of.md
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log, sqrt
from types import MappingProxyType

from holdfast_systems.grading.features import Features
from holdfast_systems.grading.line import Line, on_line

# People's scores of learners' essays have a mean of 3.15 and a spread of 0.62 on a scale of 1 to 5: in ours, 5.4 and
# 1.55. Ours are spread a little wider: agreement loses hardly anything by it, and what is far out is told as doubtful.
# A sum starts above their mean, for blame may go farther than praise.
MEAN_OF_PEOPLE = 5.4
_CENTRE = 5.6
POINTS_PER_DEVIATION = 2.1
SURPRISAL_WEIGHT = 3.0
# Measurements go with each other: their usual correlation, from which the spread of a sum of them follows.
_RELATED = 0.2
# No measurement carries a text away by itself.
_PRAISE_MAX, _BLAME_MAX = 2.0, 3.0
# What learners usually write: mean and standard deviation. Priors, rounded: a wrong one shifts or stretches the
# scale a little, but changes hardly anybody's place on it. Sixty-six sentences from learners' exams had 2.2 misspelt
# words and 3.6 slips in a hundred; careful B1 texts have 0.5 and 2: these lie between, nearer to the latter.
_USUAL: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "variety": (0.775, 0.045),
        "misspelt": (-0.05, 0.8),
        "slips": (0.85, 0.7),
        "length": (0.4, 0.5),
        "links": (4.3, 1.1),
        "english": (0.968, 0.022),
        "sentences": (0.35, 0.33),
        "surprisal": (3.65, 0.45),
        "level": (2.6, 0.3),
    }
)
_LOWER_IS_BETTER = frozenset({"misspelt", "slips", "sentences", "surprisal"})
_WRITTEN_ONLY = frozenset({"misspelt", "english", "sentences"})
SEVEN = ("variety", "misspelt", "slips", "length", "links", "english", "sentences")
_NATURAL_SENTENCE = 18

# The ends of the range, in shares of 1.
_SHORT_SENTENCES: Line = ((6, 1), (17, 0))
_FEW_CLAUSES: Line = ((0, 1), (4.5, 0))
_BASIC_WORDS: Line = ((2.6, 1), (3.1, 0))
_PLAIN: Line = ((0.2, 0), (0.4, 1))
_ADVANCED_WORDS: Line = ((3.3, 0), (3.9, 1))
_CAREFUL: Line = ((0.2, 0), (1.0, 1))
# Plain sentences are drawn down to A2, and then cost a little more.
_PLAIN_MOST, _PLAIN_COSTS = 4.0, 1.0
_RICH_EARNS = 3.5
# From `_LOW` down and from the highs up the scale is bent: a sum alone comes close to C1 and seldom reaches it.
_LOW, _HIGH, _HIGHEST = 2.0, 7.0, 8.3
_RICH_HIGH, _RICH_HIGHEST = 8.5, 10.0


def deviations(
    measured: Features, words_expected: int, surprisal: float | None, *, spoken: bool = False
) -> dict[str, float]:
    """Each measurement in standard deviations from the usual, more being better. This is what is kept of an answer:
    numbers from which no word of it can be read back. Without a language model there is no `surprisal` among them."""
    values = {
        "variety": measured.variety,
        "misspelt": log(measured.misspelt_rate + 0.3),
        "slips": log(measured.slips_rate + 0.5),
        "length": log(max(1, measured.distinct_sentences_words) / words_expected),
        "links": float(measured.link_kinds),
        "english": measured.english_share,
        "sentences": abs(log(max(1.0, measured.sentence_words) / _NATURAL_SENTENCE)),
        "level": measured.level,
    }
    if spoken:
        # Spelling and full stops are the transcriber's.
        values = {name: value for name, value in values.items() if name not in _WRITTEN_ONLY}
    if surprisal is not None:
        values["surprisal"] = surprisal
    return {name: round(_deviation(name, value), 3) for name, value in values.items()}


def _deviation(name: str, value: float) -> float:
    mean, spread = _USUAL[name]
    away = (mean - value if name in _LOWER_IS_BETTER else value - mean) / spread
    return max(-_BLAME_MAX, min(_PRAISE_MAX, away))


def weights_of(parts: Mapping[str, float]) -> dict[str, float]:
    """What each of the parts that place a text counts."""
    weights = {name: 1.0 for name in SEVEN if name in parts}
    return weights | ({"surprisal": SURPRISAL_WEIGHT} if "surprisal" in parts else {})


def spread_of_sum(weights: Mapping[str, float]) -> float:
    """The standard deviation of a weighed sum of measurements that go with each other as they usually do."""
    squares, total = sum(weight**2 for weight in weights.values()), sum(weights.values())
    return sqrt(squares + _RELATED * (total**2 - squares))


def place(parts: Mapping[str, float]) -> float:
    """How many standard deviations above the usual text one with these parts lies."""
    weights = weights_of(parts)
    return sum(weight * parts[name] for name, weight in weights.items()) / spread_of_sum(weights)


def score_of(parts: Mapping[str, float], measured: Features, delivered: float = 0.0) -> float:
    """The overall score, 0 to 10, not rounded. `delivered` is what the delivery of speech adds to its place."""
    plain = plainness(measured)
    if parts.get("surprisal", 0.0) > 0:
        # Plain sentences are easy to foresee, and no better for it.
        parts = {**parts, "surprisal": parts["surprisal"] * max(0.0, 1 - 2 * plain)}
    score = _CENTRE + POINTS_PER_DEVIATION * (place(parts) + delivered)
    score -= plain * (max(0.0, score - _PLAIN_MOST) + _PLAIN_COSTS)
    score = _bent(_not_below_zero(score), _HIGH, _HIGHEST)
    careful = on_line(_CAREFUL, (parts["slips"] + parts.get("misspelt", parts["slips"])) / 2)
    return _bent(score + _RICH_EARNS * on_line(_ADVANCED_WORDS, measured.level) * careful, _RICH_HIGH, _RICH_HIGHEST)


def plainness(measured: Features) -> float:
    """0 for a text with the sentences of an ordinary one, 1 for short sentences of basic words that hardly ever have a
    second clause. All three must be so: good writers write short sentences too."""
    clauses = on_line(_FEW_CLAUSES, measured.subordinate_rate)
    short = on_line(_SHORT_SENTENCES, measured.sentence_words)
    return on_line(_PLAIN, min(clauses, short, on_line(_BASIC_WORDS, measured.level)))


def _not_below_zero(score: float) -> float:
    return score if score >= _LOW else _LOW * exp((score - _LOW) / (2 * _LOW))


def _bent(score: float, start: float, end: float) -> float:
    """The end of a range is approached, not hit: texts beyond it still differ."""
    room = end - start
    return score if score <= start else start + room * (1 - exp((start - score) / room))

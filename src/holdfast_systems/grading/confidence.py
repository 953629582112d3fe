"""How sure we are of a grade: four factors, weighed; a missing factor's weight goes to the others.

    model consistency   30 %   separate estimates agree (missing with fewer than two)
    rule validation     25 %   what can be checked about the grade by rule holds
    content similarity  25 %   the answer is about its question (missing without the question's text)
    length heuristic    20 %   there is enough of it, and not too much, to show a level

Honest by construction: a rule that nobody can check counts as not held. The offline grader checks form only,
three of its five rules at most, and its estimates part with the distance from the usual: an unusual text stays below 85
and a person looks at it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from types import MappingProxyType

from holdfast_systems.grading.grade import Grade, band_of

WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"modelConsistency": 0.30, "ruleValidation": 0.25, "contentSimilarity": 0.25, "lengthHeuristic": 0.20}
)
# Runs that differ by this many points have nothing in common.
_SPREAD_MAX = 4.0
_WORD = re.compile(r"[^\W\d_]{3,}")


@dataclass(frozen=True, slots=True)
class Confidence:
    """0 to 100, and the factors (0 to 1) it was made of. A missing factor is None."""

    score: int
    factors: Mapping[str, float | None]


def confidence_in(
    grade: Grade,
    *,
    words: int,
    words_expected: int,
    answer: str = "",
    question: str | None = None,
    measured: Grade | None = None,
) -> Confidence:
    """The confidence in a grade. `measured` is an independent offline grade of the same answer, if there is one."""
    return weigh(
        {
            "modelConsistency": model_consistency(grade),
            "ruleValidation": rule_validation(grade, measured),
            "contentSimilarity": content_similarity(answer, question),
            "lengthHeuristic": length_heuristic(words, words_expected),
        }
    )


def weigh(factors: Mapping[str, float | None]) -> Confidence:
    """The weighted mean of the known factors, as whole percent rounded down: never surer than we are."""
    known = {name: value for name, value in factors.items() if value is not None}
    total = sum(WEIGHTS[name] for name in known)
    if not total:
        return Confidence(0, dict(factors))
    mean = sum(WEIGHTS[name] * min(1.0, max(0.0, value)) for name, value in known.items()) / total
    # Floats: 0.85 may be stored a hair below, and must not lose a whole point for it.
    return Confidence(int(mean * 100 + 1e-9), dict(factors))


def model_consistency(grade: Grade) -> float | None:
    """1 when all runs agree, falling with the distance between the highest and the lowest."""
    if len(grade.runs) < 2:
        return None
    return max(0.0, 1 - (max(grade.runs) - min(grade.runs)) / _SPREAD_MAX)


def rule_validation(grade: Grade, measured: Grade | None = None) -> float:
    """The share of five rules that hold: band, balance, no signal, agreement with a measurement, relevance."""
    scores = [criterion.score for criterion in grade.criteria.values()]
    agreement = abs(grade.overall_score - measured.overall_score) if measured else None
    rules = (
        grade.band == band_of(grade.overall_score),
        max(scores) - min(scores) <= 3.0,
        not grade.signals,
        agreement is not None and agreement <= 1.5,
        # Only a reader of meaning can say that the answer fits its task.
        grade.method == "llm" and "off_topic" not in grade.signals,
    )
    return sum(rules) / len(rules)


def content_similarity(answer: str, question: str | None) -> float | None:
    """How much an answer shares with its question: the cosine of their words, 0.35 of it being plenty."""
    if not question or not _WORD.search(question):
        return None
    one, other = (Counter(_WORD.findall(text.lower())) for text in (answer, question))
    dot = sum(count * other[word] for word, count in one.items())
    size = sqrt(sum(n * n for n in one.values()) * sum(n * n for n in other.values()))
    return min(1.0, dot / size / 0.35) if size else 0.0


def length_heuristic(words: int, words_expected: int) -> float:
    """1 around the expected length; less for a fragment, a little less for a very long answer."""
    share = words / max(1, words_expected)
    if share <= 1.5:
        return min(1.0, share / 0.9)
    return max(0.5, 1 - (share - 1.5) / 5)

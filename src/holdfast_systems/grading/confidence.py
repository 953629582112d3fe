"""How sure we are of a grade: four factors, weighed; a missing factor's weight goes to the others.

    model consistency   30 %   separate estimates agree (missing with fewer than two); of a measured grade, its doubt
    rule validation     25 %   what can be checked about the grade by rule holds
    content similarity  25 %   the answer is about its question (missing without the question's text)
    length heuristic    20 %   there is enough of it, and not too much, to show a level

Honest by construction: a rule that nobody can check counts as not held. The offline grader checks form only,
three of its five rules at most, and it says how far it may be wrong (`doubt`): what is unusual or short stays below 85
and a person looks at it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from holdfast_systems.grading.grade import Grade, band_of
from holdfast_systems.grading.line import Line, on_line

WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"modelConsistency": 0.30, "ruleValidation": 0.25, "contentSimilarity": 0.25, "lengthHeuristic": 0.20}
)
# Runs that differ by this many points have nothing in common.
_SPREAD_MAX = 4.0
# A measured grade cannot be less in doubt than the first of these, and says nothing beyond the second. The line of 85
# lies at 0.45 points.
# Who is two points away is a band away.
_DOUBT: Line = ((0.3, 1.0), (2.0, 0.0))
_FLOOD = 3.0
_WORD = re.compile(r"[^\W\d_]{3,}")
_STEM = 4
# Words of every text, and of every task.
_NO_SUBJECT = frozenset(
    re.findall(
        r"\w+",
        """the and for are was were been being has have had not but you your our their they them his her its this that
    these those there here with from into about than then when what which who whom whose why how will would can could
    should may might must does did done all any some more most many much very such only also just other others another
    people think believe say write essay letter email answer question describe discuss explain give opinion own view
    views both sides agree disagree extent reasons reason example examples least words include experience following
    between because while where over out get use one two first""",
    )
)


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
    """1 when all runs agree, falling with the distance between the highest and the lowest; or with the doubt."""
    if grade.doubt is not None:
        return on_line(_DOUBT, grade.doubt)
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
    """How much of its question an answer takes up: the share of the question's own words in it, half being plenty."""
    asked = _stems(question or "")
    if not asked:
        return None
    return min(1.0, 2 * len(asked & _stems(answer)) / len(asked))


def _stems(text: str) -> set[str]:
    """The beginnings of the words that carry a text's subject: "cities" and "city" begin alike."""
    return {word[:_STEM] for word in _WORD.findall(text.lower()) if word not in _NO_SUBJECT}


def length_heuristic(words: int, words_expected: int) -> float:
    """1 from the expected length on; less for a fragment, a little less for a flood."""
    share = words / max(1, words_expected)
    if share <= _FLOOD:
        return min(1.0, share / 0.9)
    return max(0.5, 1 - (share - _FLOOD) / 10)

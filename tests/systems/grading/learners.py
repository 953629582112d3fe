"""Learners who are made up: people's scores and measurements that go with them as those of learners' essays do."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from math import exp
from typing import Any, NamedTuple

import numpy as np

from holdfast_systems.grading.features import Features
from holdfast_systems.grading.scale import SEVEN, deviations, place, score_of

NOTHING: dict[str, Any] = {field.name: () if field.name == "slip_examples" else 0 for field in fields(Features)}
USUAL = replace(
    Features(**NOTHING),
    words=370,
    distinct_sentences_words=370,
    sentences=18,
    sentence_words=18.0,
    slips_rate=1.6,
    misspelt_rate=0.5,
    level=2.6,
    variety=0.775,
    link_kinds=4,
    subordinate_rate=6.0,
    english_share=0.97,
)


def score(measured: Features, surprisal: float | None) -> float:
    return score_of(deviations(measured, 250, surprisal), measured)


# How learners' measurements go with people's scores (as measured on essays) and with each other (chosen so that sums
# of five, of seven and of all go with people's scores as measured: r 0.50, 0.56, 0.62).
PARTS = (*SEVEN, "surprisal")
WITH_PEOPLE = (0.40, 0.36, 0.29, 0.26, 0.28, 0.36, 0.24, 0.55)
WITH_EACH_OTHER = {
    ("misspelt", "english"): 0.55,
    ("misspelt", "slips"): 0.5,
    ("slips", "english"): 0.35,
    ("length", "links"): 0.45,
    ("variety", "slips"): 0.2,
    ("variety", "misspelt"): 0.2,
    ("surprisal", "misspelt"): 0.52,
    ("surprisal", "slips"): 0.47,
    ("surprisal", "english"): 0.46,
    ("surprisal", "links"): 0.2,
    ("surprisal", "sentences"): 0.2,
}
LEARNERS = 3_000


class Learner(NamedTuple):
    person: float
    text: Features
    surprisal: float
    plain_sum: float
    foreseen: float


@cache
def learners(count: int = LEARNERS) -> list[Learner]:
    """People's scores, measurements and surprisals: spread and related as learners' are said to be, nothing else."""
    related = np.full((len(PARTS) + 1, len(PARTS) + 1), 0.08)
    for (one, other), r in WITH_EACH_OTHER.items():
        places = PARTS.index(one), PARTS.index(other)
        related[places] = related[places[::-1]] = r
    related[-1, :-1] = related[:-1, -1] = WITH_PEOPLE
    np.fill_diagonal(related, 1.0)
    luck = np.random.default_rng(19)
    drawn = luck.standard_normal((count, len(related))) @ np.linalg.cholesky(related).T
    return [_learner(dict(zip((*PARTS, "person"), row, strict=True)), *luck.standard_normal(3)) for row in drawn]


def _learner(z: dict[str, float], level: float, clauses: float, run_on: float) -> Learner:
    words = max(30, int(250 * exp(0.4 + 0.5 * z["length"])))
    distance = max(0.0, 0.35 - 0.33 * z["sentences"])
    text = replace(
        USUAL,
        words=words,
        distinct_sentences_words=words,
        variety=0.775 + 0.045 * z["variety"],
        misspelt_rate=max(0.0, exp(-0.05 - 0.8 * z["misspelt"]) - 0.3),
        slips_rate=max(0.0, exp(0.85 - 0.7 * z["slips"]) - 0.5),
        link_kinds=min(6, max(0, round(4.3 + 1.1 * z["links"]))),
        english_share=min(1.0, 0.968 + 0.022 * z["english"]),
        sentence_words=18 * exp(distance if run_on > -0.6 else -distance),
        subordinate_rate=max(0.0, 6 + 2 * clauses),
        level=2.6 + 0.3 * level,
    )
    person = min(10.0, max(0.0, 5.4 + 1.55 * z["person"]))
    return Learner(person, text, 3.65 - 0.45 * z["surprisal"], sum(z[name] for name in SEVEN), z["surprisal"])


def scores_of(some: list[Learner], *, with_model: bool) -> list[float]:
    return [score(each.text, each.surprisal if with_model else None) for each in some]


def place_of(learner: Learner, *, with_model: bool) -> float:
    return place(deviations(learner.text, 250, learner.surprisal if with_model else None))


def weighted_kappa(ours: list[float], people: list[float]) -> float:
    """Quadratic, in half marks of 1 to 5."""
    marks = [np.floor(2 * (1 + 0.4 * np.array(scores)) + 0.5) for scores in (ours, people)]
    apart = np.subtract.outer(*marks) ** 2
    return float(1 - np.diagonal(apart).mean() / apart.mean())

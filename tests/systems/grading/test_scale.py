"""The scale, on measurements that are made up: no text is needed to say what it promises."""

from __future__ import annotations

from bisect import bisect
from dataclasses import replace
from random import Random
from statistics import correlation, mean, stdev

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from quality.texts import texts as quality_texts
from tests.systems.grading.learners import USUAL, learners, place_of, score, scores_of, weighted_kappa

from holdfast_systems.grading.doubt import doubt_of
from holdfast_systems.grading.scale import SEVEN, deviations, score_of
from holdfast_systems.grading.word_order import impossible_pairs

rates = st.floats(0, 12)


@given(
    fewer=rates,
    more=rates,
    misspelt=rates,
    level=st.floats(1.5, 4.5),
    clauses=st.floats(0, 8),
    sentence_words=st.floats(4, 40),
    variety=st.floats(0.6, 0.95),
    surprisal=st.none() | st.floats(2.0, 6.0),
)
# The first slips of a careful text in everyday words, where a ceiling for such texts once paid for slips.
@example(0.0, 0.4, 0.0, 2.2, 5.0, 15.0, 0.85, 2.6)
@example(0.4, 1.2, 0.0, 2.2, 5.0, 15.0, 0.85, None)
def test_no_text_is_the_better_for_a_slip(
    fewer: float,
    more: float,
    misspelt: float,
    level: float,
    clauses: float,
    sentence_words: float,
    variety: float,
    surprisal: float | None,
) -> None:
    fewer, more = sorted((fewer, more))
    text = replace(
        USUAL,
        misspelt_rate=misspelt,
        level=level,
        subordinate_rate=clauses,
        sentence_words=sentence_words,
        variety=variety,
        slips_rate=fewer,
    )
    assert score(replace(text, slips_rate=more), surprisal) <= score(text, surprisal) + 1e-9
    text = replace(text, slips_rate=misspelt, misspelt_rate=fewer)
    assert score(replace(text, misspelt_rate=more), surprisal) <= score(text, surprisal) + 1e-9


@pytest.mark.parametrize("with_model", [False, True])
def test_scores_agree_with_people_as_well_as_a_plain_sum_does(with_model: bool) -> None:
    """Each rule beyond the sum, and a wider spread, cost a little here: the ends of the scale and a confidence that
    tells are worth that little, and no more."""
    scores, people = scores_of(learners(), with_model=with_model), [each.person for each in learners()]
    sums = np.array([each.plain_sum + 3 * each.foreseen * with_model for each in learners()])
    as_people = mean(people) + stdev(people) * (sums - sums.mean()) / sums.std()
    plain = weighted_kappa([min(10.0, max(0.0, each)) for each in as_people], people)
    assert weighted_kappa(scores, people) >= plain - 0.025
    assert abs(mean(scores) - 5.4) < 0.25, "where the mean is wrong agreement is lost although the order is right"
    assert 1.5 < stdev(scores) < 2.0


def test_what_is_surest_is_nearest_to_people() -> None:
    pairs = sorted(
        (doubt_of(scored, place_of(each, with_model=True), each.text.words), abs(scored - each.person))
        for scored, each in zip(scores_of(learners(), with_model=True), learners(), strict=True)
    )
    surest, rest = pairs[: len(pairs) // 5], pairs[len(pairs) // 5 :]
    assert mean(error for _, error in surest) < 0.87 * mean(error for _, error in rest)
    errors = sorted(error for _, error in pairs)
    assert correlation(range(len(pairs)), [bisect(errors, error) for _, error in pairs]) > 0.2


def test_the_level_of_the_words_moves_nobody_inside_the_usual_range() -> None:
    """It says nothing about people's scores there."""
    scores = {score(replace(USUAL, level=level, slips_rate=0.2), None) for level in (2.1, 2.3, 2.5, 2.7, 2.9)}
    assert len(scores) == 1
    assert set(SEVEN) < set(deviations(USUAL, 250, None))


def test_plain_sentences_are_low_and_earn_nothing_for_being_easy_to_foresee() -> None:
    plain = replace(USUAL, sentence_words=9.0, subordinate_rate=1.0, slips_rate=0.0, misspelt_rate=0.0)
    assert 2.5 < score(plain, 2.4) < 4.0 and 2.5 < score(plain, None) < 4.0, "A2, not less"
    assert score(plain, 2.4) == score(plain, 3.65)
    assert score(replace(plain, subordinate_rate=6.0), 2.4) > 6.5
    assert score(replace(plain, level=3.2), 2.4) > 6.5, "in words that are not basic, short sentences are a style"
    slips = replace(plain, slips_rate=9.0, misspelt_rate=6.0, variety=0.65, link_kinds=1)
    assert score(slips, 4.2) < 1.5, "from below nobody is drawn up"
    assert score(slips, 2.4) == score(slips, 3.65)


def test_speech_that_halts_is_low_and_still_differs_from_nothing() -> None:
    parts = deviations(USUAL, 250, None, spoken=True)
    slow, slower, slowest = (score_of(parts, USUAL, delivered) for delivered in (-2.0, -3.0, -3.7))
    assert 2.0 > slow > slower > slowest > 0.1
    assert score_of(parts, USUAL, 2.0) < 8.3, "pace alone makes nobody C1"


def test_no_measurement_carries_a_text_away() -> None:
    easy, hard = (deviations(USUAL, 250, surprisal)["surprisal"] for surprisal in (1.0, 6.5))
    assert (easy, hard) == (2.0, -3.0)
    assert deviations(replace(USUAL, distinct_sentences_words=20_000), 250, None)["length"] == 2.0


def test_rare_words_well_used_are_c1_and_with_slips_they_earn_nothing() -> None:
    good = replace(USUAL, slips_rate=0.2, misspelt_rate=0.0, variety=0.83, english_share=0.96)
    assert score(good, 3.7) < 8.0 and score(replace(good, level=3.7), 3.7) >= 8.5
    best = replace(good, variety=0.9, slips_rate=0.0, link_kinds=6, english_share=1.0)
    assert 8.0 < score(best, 2.4) < 8.3, "what is correct and no more ends with B2"
    assert score(best, 2.4) < score(replace(best, level=4.5), 2.4) < 10
    careless = replace(good, slips_rate=2.5, misspelt_rate=1.0)
    assert score(replace(careless, level=3.9), 3.7) == score(careless, 3.7)


def test_words_in_another_order_hold_pairs_that_no_sentence_holds() -> None:
    """Without a language model these tell, also where a learner dropped every second article."""
    dice = Random(3)
    texts = [text.split() for level, _, text in quality_texts() if level != "A1"]
    short = [[word for word in text if word not in ("the", "a", "an") or dice.random() < 0.5] for text in texts * 12]
    shuffled = [dice.sample(text, len(text)) for text in short]
    assert not [text for text in (*texts, *short) if _rate(text) > 2]
    assert sum(_rate(text) > 2 for text in shuffled) >= 0.99 * len(shuffled)


def _rate(words: list[str]) -> float:
    return 100 * impossible_pairs(" ".join(words)) / len(words)

"""The scale, on measurements that are made up: no text is needed to say what it promises."""

from __future__ import annotations

from bisect import bisect
from dataclasses import fields, replace
from math import exp, sqrt
from random import Random
from statistics import correlation, mean, stdev
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from quality.texts import texts as quality_texts

from holdfast_systems.grading.doubt import doubt_of
from holdfast_systems.grading.features import Features
from holdfast_systems.grading.scale import SEVEN, deviations, score_of
from holdfast_systems.grading.word_order import impossible_pairs

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
rates = st.floats(0, 12)


def score(measured: Features, surprisal: float | None) -> float:
    return score_of(deviations(measured, 250, surprisal), measured)


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


def made_up_texts(count: int) -> list[tuple[float, Features, float]]:
    """A person's score, measurements and a surprisal: spread and related as learners' are said to be, nothing else.
    Of each measurement a part goes with the person's score, and a little with the other measurements."""
    dice = Random(19)
    texts = []
    for _ in range(count):
        person, common = dice.gauss(0, 1), dice.gauss(0, 1)

        def draw(own: float, person: float = person, common: float = common) -> float:
            return own * person + 0.28 * common + sqrt(1 - own**2 - 0.28**2) * dice.gauss(0, 1)

        length = 250 * exp(0.4 + 0.5 * draw(0.26))
        distance = max(0.0, 0.35 - 0.33 * draw(0.2))
        text = replace(
            USUAL,
            words=int(length),
            distinct_sentences_words=max(30, int(length)),
            variety=0.775 + 0.045 * draw(0.4),
            misspelt_rate=max(0.0, exp(-0.2 - 0.8 * draw(0.35)) - 0.3),
            slips_rate=max(0.0, exp(0.75 - 0.7 * draw(0.28)) - 0.5),
            link_kinds=min(6, max(0, round(4.3 + 1.1 * draw(0.28)))),
            english_share=min(1.0, 0.97 + 0.022 * draw(0.35)),
            sentence_words=18 * exp(distance if dice.random() < 0.7 else -distance),
            subordinate_rate=max(0.0, dice.gauss(6, 2)),
            level=dice.gauss(2.6, 0.3),
        )
        texts.append((min(10.0, max(0.0, 5.4 + 1.55 * person)), text, 3.65 - 0.45 * draw(0.55)))
    return texts


def test_learners_texts_get_the_mean_and_the_spread_that_people_give() -> None:
    """Where they are wrong, agreement with people is lost although the order is right."""
    for with_model in (False, True):
        scores = [score(text, surprisal if with_model else None) for _, text, surprisal in made_up_texts(600)]
        assert abs(mean(scores) - 5.4) < 0.25, mean(scores)
        assert abs(stdev(scores) - 1.55) < 0.2, stdev(scores)


def test_what_is_surest_is_nearest_to_people() -> None:
    pairs = []
    for person, text, surprisal in made_up_texts(1_500):
        parts = deviations(text, 250, surprisal)
        given_score = score_of(parts, text)
        pairs.append((doubt_of(given_score, parts, text.words), abs(given_score - person)))
    pairs.sort()
    surest, rest = pairs[: len(pairs) // 5], pairs[len(pairs) // 5 :]
    assert mean(error for _, error in surest) < 0.9 * mean(error for _, error in rest)
    errors = sorted(error for _, error in pairs)
    assert correlation(range(len(pairs)), [bisect(errors, error) for _, error in pairs]) > 0.1


def test_the_level_of_the_words_moves_nobody_inside_the_usual_range() -> None:
    """It says nothing about people's scores there."""
    scores = {score(replace(USUAL, level=level, slips_rate=0.2), None) for level in (2.1, 2.3, 2.5, 2.7, 2.9)}
    assert len(scores) == 1
    assert set(SEVEN) < set(deviations(USUAL, 250, None))


def test_plain_sentences_are_low_and_earn_nothing_for_being_easy_to_foresee() -> None:
    plain = replace(USUAL, sentence_words=9.0, subordinate_rate=1.0, slips_rate=0.0, misspelt_rate=0.0)
    assert score(plain, 2.4) <= 4.0 and score(plain, None) <= 4.5
    assert score(plain, 2.4) == score(plain, 3.65)
    assert score(replace(plain, subordinate_rate=6.0), 2.4) > 6.5


def test_what_is_easy_to_foresee_earns_a_deviation_at_most_and_what_is_not_costs_three() -> None:
    easy, hard = (deviations(USUAL, 250, surprisal)["surprisal"] for surprisal in (1.0, 6.5))
    assert (easy, hard) == (1.0, -3.0)
    assert deviations(replace(USUAL, variety=1.0), 250, None)["variety"] > 1.4, "other praise goes on to 1.5"


def test_the_best_writing_is_c1_only_with_its_words() -> None:
    best = replace(USUAL, slips_rate=0.0, misspelt_rate=0.0, variety=0.88, link_kinds=6, english_share=0.99)
    assert score(replace(best, level=3.8), 3.3) >= 8.75
    assert score(replace(best, level=3.2), 2.6) <= 8.0


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

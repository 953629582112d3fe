"""The weights of confidence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_systems.grading.confidence import (
    WEIGHTS,
    confidence_in,
    content_similarity,
    length_heuristic,
    model_consistency,
    rule_validation,
    weigh,
)
from holdfast_systems.grading.grade import CRITERIA, Criterion, Grade, grade_of

factor = st.none() | st.floats(0, 1)


def grade(
    score: float = 6.0, *, method: str = "llm", runs: tuple[float, ...] = (), signals: tuple[str, ...] = ()
) -> Grade:
    criteria = {name: Criterion(score, "Good.") for name in CRITERIA}
    return grade_of(criteria, signals=signals, method="llm" if method == "llm" else "offline", runs=runs)


@pytest.mark.spec("G15")
def test_the_weights_are_the_specification_s() -> None:
    assert list(WEIGHTS.values()) == [0.30, 0.25, 0.25, 0.20]
    for name, percent in (
        ("modelConsistency", 30),
        ("ruleValidation", 25),
        ("contentSimilarity", 25),
        ("lengthHeuristic", 20),
    ):
        assert weigh(dict.fromkeys(WEIGHTS, 0.0) | {name: 1.0}).score == percent


@pytest.mark.spec("G15")
def test_the_weight_of_a_missing_factor_goes_to_the_others() -> None:
    assert (
        weigh(
            {"modelConsistency": None, "ruleValidation": 1.0, "contentSimilarity": None, "lengthHeuristic": 0.0}
        ).score
        == 55
    )
    assert weigh(dict.fromkeys(WEIGHTS, None)).score == 0
    assert weigh({name: None if name == "contentSimilarity" else 1.0 for name in WEIGHTS}).score == 100


@pytest.mark.spec("G15")
@given(st.fixed_dictionaries(dict.fromkeys(WEIGHTS, factor)))
def test_confidence_is_whole_percent_between_its_factors(factors: dict[str, float | None]) -> None:
    score = weigh(factors).score
    known = [value * 100 for value in factors.values() if value is not None] or [0.0]
    assert isinstance(score, int) and min(known) - 1 <= score <= max(known) + 1e-6


@pytest.mark.spec("G15")
def test_confidence_is_never_rounded_up_nor_lost_to_binary_fractions() -> None:
    assert weigh(dict.fromkeys(WEIGHTS, 0.849)).score == 84
    for percent in range(101):
        assert weigh(dict.fromkeys(WEIGHTS, percent / 100)).score == percent


@pytest.mark.spec("G15")
def test_runs_that_disagree_cost_consistency_and_one_run_has_none() -> None:
    assert model_consistency(grade(runs=(6.0,))) is None
    assert model_consistency(grade(runs=(6.0, 6.0, 6.0))) == 1.0
    assert model_consistency(grade(runs=(5.0, 7.0))) == 0.5
    assert model_consistency(grade(runs=(0.0, 10.0))) == 0.0


@pytest.mark.spec("G15")
def test_an_offline_grade_alone_always_asks_for_review() -> None:
    best = confidence_in(grade(9.0, method="offline"), words=250, words_expected=250)
    assert 70 <= best.score < 85


@pytest.mark.spec("G15")
def test_a_steady_model_that_agrees_with_the_measurement_is_trusted() -> None:
    sure = confidence_in(
        grade(6.0, runs=(6.0, 6.0, 6.5)), words=250, words_expected=250, measured=grade(6.5, method="offline")
    )
    assert sure.score >= 90
    unsure = confidence_in(
        grade(9.0, runs=(9.0, 6.0)), words=60, words_expected=250, measured=grade(3.0, method="offline")
    )
    assert unsure.score < 70


@pytest.mark.spec("G15")
def test_a_signal_lowers_rule_validation() -> None:
    assert rule_validation(grade(signals=("prompt_injection",))) < rule_validation(grade())


@pytest.mark.spec("G15")
def test_similarity_needs_a_question_and_knows_a_strange_answer() -> None:
    question = "Write about the advantages of public transport in big cities."
    assert content_similarity("anything", None) is None and content_similarity("anything", "?") is None
    fitting = content_similarity("Public transport in big cities has many advantages; transport is cheap.", question)
    strange = content_similarity("My grandmother cooks noodle soup every Sunday morning.", question)
    assert fitting is not None and strange is not None and fitting > 0.8 > 0.3 > strange
    assert content_similarity("", question) == 0.0
    # The small words that every text has, and those of every task, tell nothing.
    assert content_similarity("Write about the other in your own opinion, and give reasons.", question) == 0.0


@pytest.mark.spec("G15")
def test_a_fragment_and_a_flood_are_less_sure_than_the_right_length() -> None:
    assert length_heuristic(0, 250) == 0.0
    assert length_heuristic(60, 250) < length_heuristic(200, 250) < length_heuristic(260, 250) == 1.0
    assert length_heuristic(600, 250) == 1.0  # long answers show more
    assert length_heuristic(5_000, 250) == 0.5

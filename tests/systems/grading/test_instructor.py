"""The 0.4 / 0.6 rule of a human review."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_systems.grading.grade import BANDS, Band, band_of, bands_apart
from holdfast_systems.grading.instructor import ReviewSettlement, settle_review

scores = st.integers(0, 100).map(lambda tenths: tenths / 10)


@pytest.mark.spec("G11")
@pytest.mark.parametrize(
    ("ai", "human", "final"), [(7.0, 7.5, 7.3), (6.1, 6.6, 6.4), (5.0, 5.0, 5.0), (8.4, 8.5, 8.46)]
)
def test_close_grades_are_weighed_four_to_six(ai: float, human: float, final: float) -> None:
    settled = settle_review(ai, band_of(ai), human)
    assert (settled.final_score, settled.mode, settled.audit_flag) == (final, "hybrid", False)


@pytest.mark.spec("G11")
@pytest.mark.parametrize(("ai", "human"), [(7.0, 7.6), (7.0, 6.4), (2.0, 9.0)])
def test_a_human_more_than_half_a_point_away_overrides(ai: float, human: float) -> None:
    assert settle_review(ai, band_of(ai), human) == ReviewSettlement(human, band_of(human), "human", True)


@pytest.mark.spec("G11")
def test_a_human_two_bands_away_overrides_even_at_the_same_score() -> None:
    assert settle_review(6.0, "B2", 6.0, "A2") == ReviewSettlement(6.0, "A2", "human", True)
    assert settle_review(6.0, "B2", 6.0, "B1").mode == "hybrid"


@pytest.mark.spec("G11")
@given(scores, scores, st.sampled_from(BANDS), st.sampled_from(BANDS))
def test_the_final_grade_lies_between_the_two(ai: float, human: float, ai_band: Band, human_band: Band) -> None:
    settled = settle_review(ai, ai_band, human, human_band)
    assert min(ai, human) <= settled.final_score <= max(ai, human)
    assert BANDS.index(min(ai_band, human_band)) <= BANDS.index(settled.band) <= BANDS.index(max(ai_band, human_band))
    close = round(abs(ai - human), 6) <= 0.5 and bands_apart(ai_band, human_band) <= 1
    assert (settled.mode == "hybrid") is close and settled.audit_flag is not close


def test_a_score_outside_the_scale_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 10"):
        settle_review(5.0, "B1", 10.5)


@pytest.mark.parametrize(
    ("score", "band"),
    [
        (0, "A1"),
        (2.4, "A1"),
        (2.5, "A2"),
        (4, "B1"),
        (5.9, "B1"),
        (6, "B2"),
        (8.4, "B2"),
        (8.5, "C1"),
        (10, "C1"),
    ],
)
def test_bands_begin_at_their_thresholds(score: float, band: str) -> None:
    assert band_of(score) == band

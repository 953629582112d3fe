"""Instructors' reviews calibrate the grader: taken only when better, versioned, used at once, rolled back."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from tests.systems.grading.callbacks_made import completed
from tests.systems.grading.pair import Pair

from holdfast import NotFound
from holdfast_systems.grading import calibrations, messages, submissions
from holdfast_systems.grading.calibration import REVIEWS_MIN, Calibration, MarkedAnswer, calibrate
from holdfast_systems.grading.contract import Result
from holdfast_systems.grading.grade import band_of, bands_apart, to_half
from holdfast_systems.grading.transitions import claim, review


def reviews(count: int, *, harsh: float = 0.0, seed: int = 1, noise: float = 1.0) -> list[MarkedAnswer]:
    """Markers who look at slips more than the grader does, and give `harsh` points less."""
    dice = random.Random(seed)
    found = []
    for _ in range(count):
        slips, variety = dice.gauss(0, 1), dice.gauss(0, 1)
        score = to_half(5.2 + 0.8 * slips + 0.8 * variety)
        human = to_half(5.2 - harsh + 1.3 * slips + 0.3 * variety + dice.gauss(0, noise))
        found.append(MarkedAnswer(score, {"slips": slips, "variety": variety}, human))
    return found


@pytest.mark.spec("G15")
def test_a_fit_learns_what_the_markers_look_at() -> None:
    fit = calibrate(reviews(300, harsh=1.5))
    assert fit is not None and fit.is_better and fit.reviews == 300
    assert fit.error_after < 0.75 * fit.error_before
    fresh = reviews(500, harsh=1.5, seed=2)
    errors = [abs(fit.score(each.score, each.features) - each.human_score) for each in fresh]
    assert sum(errors) / len(errors) == pytest.approx(fit.error_after, rel=0.15), "the held-out error is an honest one"


@pytest.mark.spec("G15")
def test_markers_without_a_system_teach_nothing() -> None:
    """A coin would be fitted too; held out, it is not better, and so it is not taken."""
    dice = random.Random(3)
    agreed = [MarkedAnswer(each.score, {"slips": dice.gauss(0, 1)}, each.score) for each in reviews(60)]
    fit = calibrate(agreed)
    assert fit is not None and not fit.is_better
    assert calibrate(reviews(REVIEWS_MIN - 1)) is None


@pytest.mark.spec("G15")
@pytest.mark.parametrize("noise", [0.6, 1.0, 1.6])
def test_a_calibrated_confidence_is_kept(noise: float) -> None:
    """Where it says eighty, a person is within one band at least eight times of ten."""
    fit = calibrate(reviews(100, noise=noise))
    assert fit is not None
    told = [(fit.score(each.score, each.features), each.human_score) for each in reviews(3_000, seed=5, noise=noise)]
    for least in (70, 80, 90):
        sure = [(score, human) for score, human in told if fit.confidence(score) >= least]
        within = [bands_apart(band_of(score), band_of(human)) <= 1 for score, human in sure]
        assert not sure or sum(within) / len(within) >= least / 100


@pytest.mark.spec("G15")
@pytest.mark.parametrize(
    ("spread", "stretch", "score", "confidence"),
    [(1.0, 1.0, 5.0, 95), (2.0, 1.0, 5.0, 68), (0.3, 1.0, 5.0, 99), (1.0, 1.0, 9.0, 95), (1.0, 2.0, 9.0, 49)],
)
def test_a_confidence_counts_people_within_two_points(
    spread: float, stretch: float, score: float, confidence: int
) -> None:
    """A normal distribution around what people are expected to say: nearer to the mean than a stretched score."""
    fit = Calibration(
        intercept=0,
        slope=1,
        weights={},
        mean=5,
        stretch=stretch,
        spread=spread,
        reviews=50,
        error_before=1,
        error_after=1,
    )
    assert fit.confidence(score) == confidence


@pytest.mark.spec("G15")
def test_the_same_reviews_give_the_same_calibration_in_every_release() -> None:
    fit = calibrate(reviews(REVIEWS_MIN, harsh=1.0))
    assert fit is not None
    assert {name: round(value, 3) for name, value in fit if isinstance(value, float)} == {
        "intercept": -3.142,
        "slope": 1.406,
        "mean": 3.99,
        "stretch": 1.311,
        "spread": 1.011,
        "error_before": 1.3,
        "error_after": 0.891,
    }
    assert {name: round(weight, 3) for name, weight in fit.weights.items()} == {"slips": 0.335, "variety": -0.277}


async def reviewed(pair: Pair, given: Iterable[MarkedAnswer]) -> None:
    """Submissions that were graded and then marked by a person."""
    for each in given:
        stored = await graded(pair, each)
        async with pair.main.kernel.store.transaction() as tx:
            held = await submissions.lock(tx, stored)
            assert held is not None
            change = claim(held.state, "ida", pair.main.kernel.now())
            assert change is not None
            done = review(change.after, "ida", each.human_score, None, None, pair.main.kernel.now())
            await submissions.change(pair.main.kernel, tx, held, done, pair.main.kernel.now())


async def graded(pair: Pair, each: MarkedAnswer, signals: tuple[str, ...] = ()) -> str:
    stored = await pair.submit()
    grade = messages.result(
        each.score, band_of(each.score), 75, signals=signals, extras={"features": dict(each.features)}
    )
    await pair.call_back(completed(stored.request_id, stored.id, grade))
    return stored.id


async def result_of(pair: Pair, submission_id: str) -> Result:
    return Result.model_validate((await pair.show(submission_id)).state.ai_result)


@pytest.mark.spec("G11", "G15")
async def test_reviews_calibrate_the_next_grade_until_it_is_rolled_back(pair: Pair) -> None:
    kernel = pair.main.kernel
    probe = MarkedAnswer(7.0, {"slips": 0.0, "variety": 2.2}, 0.0)
    with pytest.raises(NotFound):
        await calibrations.roll_back(kernel, "writing")
    await reviewed(pair, reviews(REVIEWS_MIN, harsh=2.0))
    assert await calibrations.calibrate_skill(kernel, "speaking", "ida") is None, "nobody reviewed speech"
    assert (await result_of(pair, await graded(pair, probe))).overall_score == 7.0
    assert await calibrations.calibrate_all(kernel, "schedule") == 1
    assert await calibrations.calibrate_all(kernel, "schedule") == 0, "nothing new was reviewed"

    changed = await result_of(pair, await graded(pair, probe))
    assert changed.overall_score <= 5.0 and changed.band == band_of(changed.overall_score)
    assert changed.model_extra is not None and changed.model_extra["calibration"]["uncalibratedScore"] == 7.0
    assert changed.confidence_score != 75
    capped = await result_of(pair, await graded(pair, probe, signals=("word_order",)))
    assert capped.overall_score == 7.0, "what a signal has marked is left alone"

    second = await calibrations.calibrate_skill(kernel, "writing", "ida")
    assert second is not None and second.version == 2 and second.status == "active"
    assert (restored := await calibrations.roll_back(kernel, "writing")) is not None and restored.version == 1
    assert await calibrations.roll_back(kernel, "writing") is None
    assert (await result_of(pair, await graded(pair, probe))).overall_score == 7.0
    async with kernel.store.reading() as tx:
        history = await calibrations.history(tx, 9)
        assert [(row.version, row.status) for row in history] == [(2, "rolled_back"), (1, "rolled_back")]
        assert await calibrations.history(tx, 1) == history[:1]

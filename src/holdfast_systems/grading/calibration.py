"""Learns from instructors how to read the grader's measurements: pure, deterministic, small.

    person's score = a + b * grader's score + sum of (w * measurement)      the w held near zero by a ridge

The more reviews there are, the farther the weights may move: with few of them the grader's own scale is only shifted
and stretched. Scores keep the spread that people's have: a ridge alone would draw everybody to the middle. What is held
out in turn, fold by fold, judges: a fit that is not better there than the grader as it was is not taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import erf, sqrt
from typing import TYPE_CHECKING

from pydantic import BaseModel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

REVIEWS_MIN = 50
REVIEWS_MAX = 2_000
# A score that is not farther than this from a person's is within a band of it: the narrower bands have two points.
WITHIN_POINTS = 2.0
_FOLDS = 5
# What holds single weights back, counted in answers. Chosen by made-up learners: of 100 reviews it makes more than a
# strength chosen on folds of those same reviews does, and its worst fit is better.
_RIDGE = 60.0
_STRETCH_MAX = 2.0


@dataclass(frozen=True, slots=True)
class MarkedAnswer:
    """An answer that a person marked: the grader's score and measurements, and the person's score."""

    score: float
    features: Mapping[str, float]
    human_score: float


class Calibration(BaseModel):
    """How to read a score and its measurements. `error_before` and `error_after` are mean distances from people's
    scores on reviews that the fit had not seen."""

    intercept: float
    slope: float
    weights: dict[str, float]
    mean: float
    stretch: float
    spread: float
    reviews: int
    error_before: float
    error_after: float

    @property
    def is_better(self) -> bool:
        return self.error_after < self.error_before

    def score(self, score: float, features: Mapping[str, float]) -> float:
        """The score as these instructors would give it, 0 to 10."""
        moved = sum(weight * features.get(name, 0.0) for name, weight in self.weights.items())
        return min(10.0, max(0.0, self.intercept + self.slope * score + moved))

    def confidence(self, calibrated: float) -> int:
        """How often in a hundred a person's score lies within a band of this one, rounded down."""
        expected = self.mean + (calibrated - self.mean) / self.stretch
        above, below = calibrated + WITHIN_POINTS - expected, calibrated - WITHIN_POINTS - expected
        return min(99, int(100 * (_normal(above / self.spread) - _normal(below / self.spread))))


def calibrate(reviews: Sequence[MarkedAnswer]) -> Calibration | None:
    """The calibration of at least fifty reviews, better or not; None with fewer."""
    import numpy as np

    if len(reviews) < REVIEWS_MIN:
        return None
    names = sorted({name for review in reviews for name in review.features})
    x = np.array([[r.score, *(r.features.get(name, 0.0) for name in names)] for r in reviews])
    y = np.array([r.human_score for r in reviews])
    held_out = np.empty(len(y))
    plain = np.empty(len(y))
    for rest, fold in _folds(len(y)):
        fit = _fit(x[rest], y[rest])
        held_out[fold], plain[fold] = fit.restored(x[fold]), fit.plain(x[fold])
    whole = _fit(x, y)
    weights = whole.stretch * whole.weights
    return Calibration(
        intercept=float(whole.mean - weights @ whole.centre),
        slope=float(weights[0]),
        weights={name: float(weight) for name, weight in zip(names, weights[1:], strict=True)},
        mean=whole.mean,
        stretch=whole.stretch,
        spread=max(0.3, float(np.sqrt(((y - plain) ** 2).mean()))),
        reviews=len(y),
        error_before=float(np.abs(y - x[:, 0]).mean()),
        error_after=float(np.abs(y - np.clip(held_out, 0, 10)).mean()),
    )


@dataclass(frozen=True, slots=True)
class _Fit:
    weights: Matrix
    centre: Matrix
    mean: float
    stretch: float

    def plain(self, x: Matrix) -> Matrix:
        found: Matrix = self.mean + (x - self.centre) @ self.weights
        return found

    def restored(self, x: Matrix) -> Matrix:
        found: Matrix = self.mean + self.stretch * ((x - self.centre) @ self.weights)
        return found


def _fit(x: Matrix, y: Matrix) -> _Fit:
    """A ridge that keeps the spread of people's scores."""
    import numpy as np

    fit = _solve(x, y)
    seen = float(np.std(fit.plain(x)))
    stretch = min(_STRETCH_MAX, max(1.0, float(np.std(y)) / seen)) if seen > 0 else 1.0
    return _Fit(fit.weights, fit.centre, fit.mean, stretch)


def _solve(x: Matrix, y: Matrix) -> _Fit:
    import numpy as np

    centre, mean = x.mean(axis=0), float(y.mean())
    away = x - centre
    # The grader's own score is hardly held back: it is the best single measurement there is.
    strength = np.diag([1.0, *[_RIDGE] * (x.shape[1] - 1)])
    return _Fit(np.linalg.solve(away.T @ away + strength, away.T @ (y - mean)), centre, mean, 1.0)


def _folds(count: int) -> list[tuple[Matrix, Matrix]]:
    import numpy as np

    places = np.arange(count)
    return [(places % _FOLDS != fold, places % _FOLDS == fold) for fold in range(_FOLDS)]


def _normal(z: float) -> float:
    return (1 + erf(z / sqrt(2))) / 2

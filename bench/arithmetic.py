"""The bench's arithmetic: medians, spreads, percentiles, slopes. Pure, and tested by hand-made numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the smallest and the largest value seen."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values))


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Round by round: a noisy minute hits both sides of the same round."""
    return [mine / other for mine, other in zip(ours, theirs, strict=False)]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(frozen=True, slots=True)
class Slope:
    """A straight line through points, and how far its rise is uncertain (one standard error)."""

    rise: float
    error: float


def slope(xs: Sequence[float], ys: Sequence[float]) -> Slope:
    """Least squares. Needs three points that do not all have the same x."""
    mean_x, mean_y = statistics.fmean(xs), statistics.fmean(ys)
    wide = sum((x - mean_x) ** 2 for x in xs)
    rise = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / wide
    rest = sum((y - mean_y - rise * (x - mean_x)) ** 2 for x, y in zip(xs, ys, strict=True))
    return Slope(rise, math.sqrt(rest / max(1, len(xs) - 2) / wide))

"""Straight lines between a few named points."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

Line = Sequence[tuple[float, float]]


def on_line(line: Line, value: float) -> float:
    """Where `value` falls on a line drawn through points; beyond its ends the line is level."""
    if value <= line[0][0]:
        return line[0][1]
    for (low, from_score), (high, to_score) in pairwise(line):
        if value <= high:
            return from_score + (to_score - from_score) * (value - low) / (high - low)
    return line[-1][1]

"""Writing: texts at known levels, their shuffles, and what a cheat would hand in."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast_systems.grading.offline_grader import OfflineGrader
from quality.row import Row, all_of
from quality.texts import texts


def measure() -> Iterator[Row]:
    grader = OfflineGrader()
    bands = [(level, grader.grade_writing(text, "essay").band) for level, _, text in texts()]
    yield all_of("texts of known level in their band", sum(level == band for level, band in bands), len(bands))

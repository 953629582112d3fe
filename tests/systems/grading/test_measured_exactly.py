"""What is measured of speech and said of a text, at the very places where it changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from holdfast_systems.grading.delivery import SpokenDelivery, delivery_of, fluency
from holdfast_systems.grading.features import Features
from holdfast_systems.grading.offline_grader import _feedback

RATE, FRAME = 1_000, 20


def sound(*frames: tuple[int, float]) -> SpokenDelivery:
    """So many frames of a fiftieth of a second, each run as loud as it says."""
    samples = np.concatenate([np.full(number * FRAME, level, np.float32) for number, level in frames])
    return delivery_of(samples, RATE)


@pytest.mark.parametrize(
    ("frames", "voice", "pauses"),
    [
        ([(50, 1.0), (12, 0.0), (50, 1.0)], 100, 0),  # 0.24 s is articulation
        ([(50, 1.0), (13, 0.0), (50, 1.0)], 100, 13),
        ([(20, 0.0), (50, 1.0), (30, 0.0), (50, 1.0), (40, 0.0)], 100, 30),  # before and after is no pause
        ([(50, 1.0), (20, 0.09), (50, 1.0)], 120, 0),  # quiet, and louder than a twelfth of the loud
        ([(50, 1.0), (20, 0.07), (50, 1.0)], 100, 20),
        ([(50, 0.0019)], 0, 0),
        ([(50, 0.0021)], 50, 0),
    ],
)
def test_voice_and_pauses_are_told_apart(frames: list[tuple[int, float]], voice: int, pauses: int) -> None:
    heard = sound(*frames)
    length = voice + pauses
    assert heard.voice_s == pytest.approx(voice * 0.02)
    assert heard.pause_share == pytest.approx(pauses / length if length else 0.0)


def test_less_than_a_frame_is_no_speech() -> None:
    assert delivery_of(np.ones(FRAME - 1, np.float32), RATE) == SpokenDelivery(0.0, 0.0)


PLAIN: dict[str, Any] = dict.fromkeys(Features.__annotations__, 0) | {
    "words": 80, "distinct_sentences_words": 80, "paragraphs": 1, "sentence_words": 12.0, "slip_examples": (),
    "level": 4.0, "variety": 0.9, "advanced_share": 0.124, "link_kinds": 3, "advanced_links": 1,
}  # fmt: skip


def measured(**given: Any) -> Features:
    return Features(**(PLAIN | given))


def test_pace_stumbles_and_pauses_are_places_on_their_lines() -> None:
    parts = fluency(measured(words=110, stumbles_rate=6), 60.0, SpokenDelivery(40.0, 0.45))
    assert parts == pytest.approx({"pace": 0.0, "stumbles": -0.4, "pauses": -0.5})
    assert fluency(measured(words=1), 0.1, None)["pace"] == pytest.approx(-0.9), "nobody speaks for less than a second"


@pytest.mark.parametrize(
    ("given", "place", "words"),
    [
        ({"distinct_sentences_words": 79}, 0, "Develop your points further."),
        ({"distinct_sentences_words": 80}, 0, "The length fits the task."),
        ({"words": 1}, 0, "You used 1 word; about 100 are expected."),
        ({"link_kinds": 1}, 1, "Sentences stand side by side"),
        ({"link_kinds": 2, "advanced_links": 0}, 1, "You use 2 kinds of links"),
        ({"link_kinds": 2}, 1, "linked in 2 ways, in 1 paragraph."),
        ({"paragraphs": 2}, 1, "linked in 3 ways, in 2 paragraphs."),
        ({"variety": 0.69}, 2, "Many words return often"),
        ({"variety": 0.7}, 2, "varied, and 12 % of it"),
        ({"level": 3.19}, 2, "mostly basic (12 %"),
        ({"level": 3.2}, 2, "The vocabulary is varied"),
        ({"slip_examples": (("a apple", "an apple"), ("he go", "he goes"))}, 3, "'he go' should be 'he goes'."),
        ({"sentence_words": 8.9}, 3, "mostly correct but short"),
        ({"sentence_words": 9.0}, 3, "Few slips were found"),
    ],
)
def test_feedback_says_what_was_measured(given: dict[str, Any], place: int, words: str) -> None:
    assert words in _feedback(measured(**given), 100, ())[place]

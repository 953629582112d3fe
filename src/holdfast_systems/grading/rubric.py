"""The rubric: what each criterion means in each band, in a sentence. An instructor reads it beside the work.

The words are our own, after the Common European Framework; they say what to look for, not how to count.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pydantic import BaseModel

from holdfast_systems.grading.grade import BANDS, CRITERIA, Band, band_range


class BandDescriptor(BaseModel):
    """What a band asks of a criterion, and the scores that belong to it: from `least`, below `below`."""

    band: Band
    least: float
    below: float
    text: str


class CriterionRubric(BaseModel):
    name: str
    title: str
    bands: list[BandDescriptor]


_TITLES: Mapping[str, tuple[str, str, str, str]] = MappingProxyType(
    {
        "writing": ("Task achievement", "Coherence and cohesion", "Vocabulary", "Grammar"),
        "speaking": ("Task achievement", "Fluency and coherence", "Vocabulary", "Grammar"),
    }
)
_TASK = (
    "Single words or phrases; the task can hardly be recognised.",
    "One or two points of the task in simple sentences; much is missing or beside the point.",
    "Most points are answered, some only touched; purpose and tone are mostly clear.",
    "Every point is answered and supported; purpose and tone fit the reader.",
    "Every point is developed fully and in proportion; the reader is led and persuaded.",
)
_ORDER: Mapping[str, tuple[str, str, str, str, str]] = MappingProxyType(
    {
        "writing": (
            "Isolated words; no order that a reader can follow.",
            "Sentences joined by and, but, because; no paragraphs, or paragraphs by chance.",
            "A simple line of thought in paragraphs; common links, some used mechanically.",
            "Clear paragraphs, each with its idea; a range of links and references used well.",
            "A text that holds together without showing its joints; everything stands where it must.",
        ),
        "speaking": (
            "Isolated words with long pauses.",
            "Short turns with many pauses and restarts; joined by and, but, because.",
            "Keeps going, with pauses to search; simple links show the order.",
            "Speaks at length with little effort; links make the argument easy to follow.",
            "Effortless and well-shaped speech; pauses are for thought, not for words.",
        ),
    }
)
_LEXIS = (
    "A few memorised words.",
    "Everyday words; repetition and wrong words often get in the way.",
    "Enough words for familiar topics, with some paraphrase; slips seldom hide the meaning.",
    "A good range with few repetitions; less common words and collocations, mostly right.",
    "A broad, precise and idiomatic range; slips are rare and small.",
)
_GRAMMAR = (
    "Memorised patterns only.",
    "Simple sentences; basic errors are frequent, and sometimes hide the meaning.",
    "Simple sentences are mostly right; complex ones are tried, with errors.",
    "A mix of simple and complex sentences with good control; errors do not disturb.",
    "A wide range of structures with steady control; errors are hard to find.",
)


def rubric_of(skill: str) -> list[CriterionRubric]:
    """The criteria of a skill, in the order of a grade."""
    sentences = (_TASK, _ORDER[skill], _LEXIS, _GRAMMAR)
    return [
        CriterionRubric(
            name=name,
            title=title,
            bands=[
                BandDescriptor(band=band, least=band_range(band)[0], below=band_range(band)[1], text=text)
                for band, text in zip(BANDS, texts, strict=True)
            ],
        )
        for name, title, texts in zip(CRITERIA, _TITLES[skill], sentences, strict=True)
    ]

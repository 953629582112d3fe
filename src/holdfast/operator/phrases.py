"""Counts, times and spans as a sentence has them."""

from __future__ import annotations

from holdfast.kernel.questions.explain import iso
from holdfast.tables.depth import COUNT_MAX


def count_of(number: int, noun: str) -> str:
    """`3 jobs`. Nobody counts further than `COUNT_MAX`: from there on it is at least so many."""
    least = "at least " if number >= COUNT_MAX else ""
    return f"{number:,} {noun}" if number == 1 else f"{least}{number:,} {noun}s"


def begin_with(number: int, noun: str) -> str:
    """The same at the beginning of a sentence."""
    words = count_of(number, noun)
    return words[0].upper() + words[1:]


def verb_for(number: int, singular: str, plural: str) -> str:
    """The form of a verb, or of a word beside it."""
    return singular if number == 1 else plural


def are(number: int) -> str:
    """`is` or `are`."""
    return verb_for(number, "is", "are")


def clock(at_ms: int) -> str:
    """`15:48 UTC`."""
    return f"{iso(at_ms)[11:16]} UTC"


def span(seconds: float) -> str:
    """`12 min`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3_600:.0f} h"

"""The text of lines, with what is raised and what is a link; and the words that line ends broke, made whole."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from holdfast_systems.conversion.layout import HYPHENS, SOFT_HYPHEN, Word


class Span(NamedTuple):
    text: str
    raised: bool = False
    target: str = ""


def spans_of(words: Sequence[Word], y: float, size: float, targets: Mapping[Word, str]) -> list[Span]:
    """The words of one line, which stands at `y`."""
    spans: list[Span] = []
    texts: list[str] = []
    look: tuple[bool, str] | None = None
    x1 = 0.0
    for word in words:
        raised = word.size <= 0.87 * size and word.y - y >= 0.15 * size
        target = targets.get(word, "") if targets else ""
        blank = not (word.glued or (raised and word.x0 - x1 < 0.25 * size))
        x1 = word.x1
        if look == (raised, target):
            texts.append(f" {word.text}" if blank else word.text)
            continue
        if look is not None:
            plain = look == (False, "")
            spans.append(_span(texts, *look, blank=blank and plain))
            if blank and not plain:
                spans.append(Span(" "))
        look, texts = (raised, target), [word.text]
    if look is not None:
        spans.append(_span(texts, *look))
    return spans


def _span(texts: list[str], raised: bool, target: str, *, blank: bool = False) -> Span:
    text = "".join(texts).replace(f"{SOFT_HYPHEN} ", "")
    return Span(f"{text} " if blank else text, raised, target)


def join_lines(lines: Iterable[Sequence[Span]]) -> list[Span]:
    """The lines of a paragraph as one, with a blank or a mended word between two."""
    joined: list[Span] = []
    for line in lines:
        if not line:
            continue
        if not joined:
            joined = list(line)
            continue
        last, first = joined[-1], line[0]
        end, between = line_end(last.text, first.text)
        joined[-1] = last._replace(text=end)
        if (last.raised, last.target) == (first.raised, first.target):
            joined[-1] = last._replace(text=f"{end}{between}{first.text}")
            joined += line[1:]
        else:
            joined += [Span(between), *line] if between else line
    if joined and joined[-1].text.endswith(SOFT_HYPHEN):
        joined[-1] = joined[-1]._replace(text=joined[-1].text[:-1] + "-")
    return joined


def line_end(text: str, following: str) -> tuple[str, str]:
    """A line as it stands before the next, and what comes between the two.

    A hyphen goes when the word goes on in small letters, unless the word has hyphens of its own."""
    if not text.endswith(HYPHENS):
        return text, " "
    stem = text[:-1].rpartition(" ")[2]
    if not stem[-1:].isalpha() or (len(stem) < 2 and not text.endswith(SOFT_HYPHEN)):
        return (text[:-1] + "-", "") if text.endswith(SOFT_HYPHEN) and stem else (text, " ")
    if following[:1].islower() and not any(hyphen in stem for hyphen in HYPHENS):
        return text[:-1], ""
    return text[:-1] + "-", ""


class Area(NamedTuple):
    x0: float
    y0: float
    x1: float
    y1: float


def link_targets(words: Sequence[Word], links: Iterable[tuple[Area, str]]) -> dict[Word, str]:
    """The words that lie on a link."""
    targets: dict[Word, str] = {}
    by_height = sorted(words, key=lambda word: word.y)
    heights = [word.y for word in by_height]
    for area, target in links:
        for word in by_height[bisect_left(heights, area.y0 - 1) : bisect_right(heights, area.y1)]:
            if area.x0 - 1 <= (word.x0 + word.x1) / 2 <= area.x1 + 1:
                targets[word] = target
    return targets

"""From words with places to paragraphs in reading order. Pure: knows no PDF and no XML.

    words --same baseline--> segments --gutter?--> regions --> lines --> blocks

A page has one column unless a gutter shows itself: a left edge in the middle of the text that many segments
share and few cross, with running text on both sides. Tables have short cells, so they are no columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median, median_low

SOFT_HYPHEN = "\u00ad"  # ends a word that goes on in the next line


@dataclass(frozen=True, slots=True)
class Run:
    """Text on one baseline: a word, a segment or a line. `y` rises up the page."""

    text: str
    x0: float
    x1: float
    y: float
    size: float


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph or a heading."""

    text: str
    size: float


def blocks(words: Iterable[Run]) -> list[Block]:
    """The blocks of one page in the order in which a person reads them."""
    found: list[Block] = []
    for region in _regions(list(_segments(words))):
        for block in _paragraphs(_lines(region)):
            if found and _goes_on(found[-1], block):
                found[-1] = replace(found[-1], text=_joined(found[-1].text, block.text))
            else:
                found.append(block)
    return [replace(block, text=block.text.rstrip(SOFT_HYPHEN)) for block in found]


def _segments(words: Iterable[Run]) -> Iterator[Run]:
    """Words that follow each other on one baseline without a wide gap."""
    held: list[Run] = []
    for word in words:
        if held and not _adjacent(held[-1], word):
            yield _run(held)
            held = []
        held.append(word)
    if held:
        yield _run(held)


def _adjacent(left: Run, right: Run) -> bool:
    reach = max(left.size, right.size)
    return abs(left.y - right.y) < 0.4 * reach and -0.5 * reach < right.x0 - left.x1 < 1.2 * reach


def _run(pieces: Sequence[Run]) -> Run:
    """The pieces as one run. Its size is that of most of its characters."""
    sizes: Counter[float] = Counter()
    for piece in pieces:
        sizes[piece.size] += len(piece.text)
    return Run(
        text=" ".join(piece.text for piece in pieces).replace(f"{SOFT_HYPHEN} ", ""),
        x0=min(piece.x0 for piece in pieces),
        x1=max(piece.x1 for piece in pieces),
        y=pieces[0].y,
        size=sizes.most_common(1)[0][0],
    )


def _regions(segments: list[Run]) -> Iterator[list[Run]]:
    """The page cut into pieces that are read one after the other."""
    gutter = _gutter(segments)
    if gutter is None:
        yield segments
        return
    left: list[Run] = []
    right: list[Run] = []
    across: list[Run] = []
    for segment in sorted(segments, key=lambda piece: (-piece.y, piece.x0)):
        crosses = segment.x0 < gutter < segment.x1
        if crosses and (left or right):
            yield from (left, right)
            left, right = [], []
        elif not crosses and across:
            yield across
            across = []
        (across if crosses else left if segment.x1 <= gutter else right).append(segment)
    yield from (across, left, right)


def _gutter(segments: Sequence[Run]) -> float | None:
    """Where the right column begins, if there are two."""
    if len(segments) < 8:
        return None
    start, end = min(piece.x0 for piece in segments), max(piece.x1 for piece in segments)
    low, high = start + 0.3 * (end - start), start + 0.7 * (end - start)
    edges = Counter(round(piece.x0) for piece in segments if low < piece.x0 < high)
    fits = [edge - 1.0 for edge, _ in edges.most_common(5) if _is_gutter(edge - 1.0, start, end, segments)]
    return min(fits, key=lambda edge: sum(piece.x0 < edge < piece.x1 for piece in segments), default=None)


def _is_gutter(edge: float, start: float, end: float, segments: Sequence[Run]) -> bool:
    left = [piece for piece in segments if piece.x1 <= edge]
    right = [piece for piece in segments if piece.x0 >= edge]
    if min(len(left), len(right)) < 4 or len(left) + len(right) < 0.6 * len(segments):
        return False
    top = min(max(piece.y for piece in left), max(piece.y for piece in right))
    bottom = max(min(piece.y for piece in left), min(piece.y for piece in right))
    tall = min(_height(left), _height(right))
    wide = _typical_width(left) > 0.5 * (edge - start) and _typical_width(right) > 0.5 * (end - edge)
    return wide and top - bottom >= 0.5 * tall


def _typical_width(segments: Sequence[Run]) -> float:
    return median(piece.x1 - piece.x0 for piece in segments)


def _height(segments: Sequence[Run]) -> float:
    return max(piece.y for piece in segments) - min(piece.y for piece in segments)


def _lines(region: Sequence[Run]) -> list[Run]:
    """Segments of one baseline put together, from top to bottom."""
    found: list[list[Run]] = []
    for segment in sorted(region, key=lambda piece: (-piece.y, piece.x0)):
        if found and found[-1][0].y - segment.y < 0.5 * min(found[-1][0].size, segment.size):
            found[-1].append(segment)
        else:
            found.append([segment])
    return [_run(sorted(pieces, key=lambda piece: piece.x0)) for pieces in found]


def _paragraphs(lines: Sequence[Run]) -> Iterator[Block]:
    if not lines:
        return
    pitch = median_low([above.y - below.y for above, below in pairwise(lines)] or [0.0])
    end = max(line.x1 for line in lines)
    width = end - min(line.x0 for line in lines)
    held = [lines[0]]
    for line in lines[1:]:
        if _begins(held[-1], line, pitch, end - 0.25 * width):
            yield _block(held)
            held = []
        held.append(line)
    yield _block(held)


def _begins(above: Run, line: Run, pitch: float, short_of: float) -> bool:
    """Whether `line` begins a paragraph: by size, gap, indent, bullet, or a short last line before it."""
    return (
        abs(line.size - above.size) > 0.08 * above.size
        or above.y - line.y > 1.35 * max(pitch, above.size)
        or line.x0 - above.x0 > 0.8 * line.size
        or line.text.startswith(("•", "◦", "▪", "–  "))
        or (above.x1 < short_of and above.text.endswith((".", "!", "?", ":")))
    )


def _block(lines: Sequence[Run]) -> Block:
    text = lines[0].text
    for line in lines[1:]:
        text = _joined(text, line.text)
    return Block(text, _run(lines).size)


def _joined(text: str, more: str) -> str:
    return text[:-1] + more if text.endswith(SOFT_HYPHEN) else f"{text} {more}"


def _goes_on(block: Block, following: Block) -> bool:
    """Whether a column or page region broke a sentence in two."""
    if abs(block.size - following.size) > 0.08 * block.size:
        return False
    return block.text.endswith(SOFT_HYPHEN) or (
        block.text[-1:].isalnum() and following.text[:1].islower() and len(block.text) > 40
    )

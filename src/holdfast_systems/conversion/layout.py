"""From words with places to rows of text in reading order. Pure: knows no PDF and no XML.

    words --same baseline, no wide gap--> segments --order--> segments --same baseline--> rows

The order of the file's content is kept where it is a plausible reading order, which it nearly always is. It is not
where it walks across columns line by line, or up the page: then the page is cut into columns, as many as there are,
or read from top to bottom. A column begins at a left edge that many segments share and few cross, with running text
beside it; tables have short cells, so they are no columns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple, Protocol

SOFT_HYPHEN = "\u00ad"  # ends a word that goes on in the next line
HYPHENS = (SOFT_HYPHEN, "\u2010", "-")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_LINE_NUMBERS_MIN = 8
_RAISED, _SMALL = 0.15, 0.87  # how far above its line, and how much smaller, a raised word is


class Word(NamedTuple):
    """`y` is the baseline and rises up the page. `mark` is the number of its marked content, or -1."""

    text: str
    x0: float
    x1: float
    y: float
    size: float
    font: str = ""
    bold: bool = False
    italic: bool = False
    glued: bool = False
    mark: int = -1
    sideways: bool = False


@dataclass(slots=True)
class Segment:
    """Words on one baseline without a wide gap. Its size, font and weight are those of most of its characters."""

    words: list[Word]
    x0: float
    x1: float
    y: float
    size: float
    font: str
    bold: bool
    italic: bool

    @property
    def text(self) -> str:
        return text_of(self.words)


Row = list[Segment]
"""Segments that stand on one baseline, from left to right."""


def rows_in_reading_order(words: Sequence[Word]) -> list[Row]:
    """The rows of one page in the order in which a person reads them."""
    segments = list(segments_of(words))
    return [row for region in _regions(segments) for row in _rows(region)]


def line_numbers_of(words: Sequence[Word]) -> list[Word]:
    """The numbers of a page's lines: in the margin, one above the other, each the one before and one."""
    columns: dict[int, list[Word]] = {}
    for word in words:
        if word.text.isdecimal() and len(word.text) <= 4:
            columns.setdefault(round(word.x1 / 3), []).append(word)
    for edge, column in columns.items():
        numbers = sorted([*column, *columns.get(edge + 1, ())], key=lambda word: -word.y)
        steps = sum(int(below.text) == int(above.text) + 1 for above, below in pairwise(numbers))
        if len(numbers) >= _least_line_numbers(numbers, words) and steps >= 0.9 * (len(numbers) - 1):
            border = max(word.x1 for word in numbers)
            if sum(word.x0 < border for word in words) <= 1.1 * len(numbers):
                return numbers
    return []


def _least_line_numbers(numbers: Sequence[Word], words: Sequence[Word]) -> int:
    """Few lines of text are numbered where most of a page is formulas: small numbers that go on from another page."""
    goes_on = bool(numbers) and int(numbers[0].text) > _LINE_NUMBERS_MIN
    small = goes_on and max(word.size for word in numbers) < 0.8 * median(word.size for word in words)
    return _LINE_NUMBERS_MIN // 2 if small else _LINE_NUMBERS_MIN


def segments_of(words: Iterable[Word]) -> Iterator[Segment]:
    held: list[Word] = []
    for word in words:
        if held and not _adjacent(held, word):
            yield _segment(held)
            held = []
        held.append(word)
    if held:
        yield _segment(held)


def _adjacent(held: list[Word], word: Word) -> bool:
    last = held[-1]
    reach = last.size if last.size > word.size else word.size
    apart = abs(last.y - word.y)
    if apart >= 0.25 * reach and (
        apart >= 0.62 * reach or not (is_raised(word, last) or is_raised(last, word) or _returns(held, word))
    ):
        return False
    gap = word.x0 - last.x1
    if -0.5 * reach < gap < 1.2 * reach:
        return True
    if word.text.isascii() or not (is_right_to_left(word.text) and is_right_to_left(last.text)):
        return False
    return -0.5 * reach < last.x0 - word.x1 < 1.2 * reach


def _returns(held: list[Word], word: Word) -> bool:
    """After a raised word, its line goes on."""
    return len(held) > 1 and abs(held[-2].y - word.y) < 0.2 * word.size


def is_raised(word: Word, beside: Word) -> bool:
    """Whether a word is a superscript of its neighbour."""
    return word.size <= _SMALL * beside.size and word.y - beside.y >= _RAISED * beside.size


class Extent(Protocol):
    """What stands on a line, from one place to another."""

    @property
    def x0(self) -> float: ...
    @property
    def x1(self) -> float: ...
    @property
    def size(self) -> float: ...


def is_centred_over(above: Extent, below: Extent) -> bool:
    """Whether a short line stands over the middle of a long one."""
    left, right = above.x0 - below.x0, below.x1 - above.x1
    return min(left, right) > 2 * above.size and abs(left - right) < 2.5 * above.size


def is_right_to_left(text: str) -> bool:
    return _RIGHT_TO_LEFT.search(text) is not None


def _segment(words: list[Word]) -> Segment:
    if len(words) == 1:
        word = words[0]
        return Segment(words, word.x0, word.x1, word.y, word.size, word.font, word.bold, word.italic)
    main, x0, x1 = words[0], words[0].x0, words[0].x1
    looks: dict[tuple[object, ...], int] = {}
    for word in words:
        if word.x0 < x0:
            x0 = word.x0
        if word.x1 > x1:
            x1 = word.x1
        look = word[4:8]
        looks[look] = looks.get(look, 0) + len(word.text)
    if len(looks) > 1:
        usual = max(looks, key=looks.__getitem__)
        main = next(word for word in words if word[4:8] == usual)
    return Segment(words, x0, x1, main.y, main.size, main.font, main.bold, main.italic)


def text_of(words: Sequence[Word]) -> str:
    return (
        "".join([word.text if word.glued else f" {word.text}" for word in words]).strip().replace(f"{SOFT_HYPHEN} ", "")
    )


def _regions(segments: list[Segment]) -> list[list[Segment]]:
    """The page in pieces that are read one after the other."""
    if len(segments) < 3:
        return [segments]
    across, upward = _jumps(segments)
    edges = _column_edges(segments) if across or upward else []
    if edges and _crossings(segments, edges) >= 0.2 * len(segments):
        return list(_cut(segments, edges))
    if upward <= max(2.0, 0.12 * len(segments)):
        return [segments]
    if edges:
        return list(_cut(segments, edges))
    return [sorted(segments, key=lambda piece: (-round(piece.y / (0.4 * piece.size)), piece.x0))]


def _jumps(segments: Sequence[Segment]) -> tuple[int, int]:
    """How often the content goes on beside itself, and how often up the page without beginning a column."""
    across = upward = 0
    for before, after in pairwise(segments):
        if abs(before.y - after.y) < 0.4 * after.size:
            across += 1
        elif after.y > before.y + 0.8 * after.size and after.x0 < before.x1:
            upward += 1
    return across, upward


def _crossings(segments: Sequence[Segment], edges: Sequence[float]) -> int:
    """How often the content steps over the edge of a column on one baseline."""
    return sum(
        abs(before.y - after.y) < 0.4 * after.size
        and any(min(before.x1, after.x1) <= edge <= max(before.x0, after.x0) + 2 for edge in edges)
        for before, after in pairwise(segments)
    )


def _column_edges(segments: Sequence[Segment]) -> list[float]:
    """Where columns begin, but for the first."""
    start, end = min(piece.x0 for piece in segments), max(piece.x1 for piece in segments)
    counts = Counter(round(piece.x0) for piece in segments)
    wanted = max(4, 0.06 * len(segments))
    candidates = sorted(edge for edge in counts if counts[edge - 1] + counts[edge] + counts[edge + 1] >= wanted)
    edges: list[float] = []
    for candidate in candidates:
        edge, before = candidate - 2.0, edges[-1] if edges else start
        if edge - before > 0.08 * (end - start) and _few_cross(edge, segments):
            edges.append(edge)
    bounds = [start - 1, *edges, end + 1]
    return edges if edges and all(_is_column(left, right, segments) for left, right in pairwise(bounds)) else []


def _few_cross(edge: float, segments: Sequence[Segment]) -> bool:
    beside = [piece for piece in segments if edge <= piece.x0 < edge + 4]
    top, bottom = max(piece.y for piece in beside), min(piece.y for piece in beside)
    near = [piece for piece in segments if bottom <= piece.y <= top]
    crossing = sum(piece.x0 < edge - 1 and piece.x1 > edge + 1 for piece in near)
    return crossing <= 0.15 * len(near)


def _is_column(left: float, right: float, segments: Sequence[Segment]) -> bool:
    """Whether running text stands between two edges: most of it is as wide as the place allows."""
    widths = [piece.x1 - piece.x0 for piece in segments if piece.x0 >= left and piece.x1 <= right + 2]
    return len(widths) >= 4 and median(widths) > 0.5 * (right - left)


def _cut(segments: Sequence[Segment], edges: Sequence[float]) -> Iterator[list[Segment]]:
    """Columns one after the other; what runs over an edge ends those above it."""
    columns: list[list[Segment]] = [[] for _ in range(len(edges) + 1)]
    wide: list[Segment] = []
    for segment in sorted(segments, key=lambda piece: (-piece.y, piece.x0)):
        crosses = any(segment.x0 < edge - 1 and segment.x1 > edge + 2 for edge in edges)
        if crosses and any(columns):
            yield from filter(None, columns)
            columns = [[] for _ in columns]
        elif not crosses and wide:
            yield wide
            wide = []
        if crosses:
            wide.append(segment)
        else:
            columns[sum(segment.x0 >= edge for edge in edges)].append(segment)
    yield from filter(None, [wide, *columns])


def _rows(region: Sequence[Segment]) -> Iterator[Row]:
    """Neighbours on one baseline put together. A line of right-to-left script is read from the right."""
    row: Row = []
    for segment in region:
        if row and not (
            abs(row[-1].y - segment.y) < 0.4 * min(row[-1].size, segment.size) or _raises(row[-1], segment)
        ):
            yield _sorted(row)
            row = []
        row.append(segment)
    if row:
        yield _sorted(row)


def _raises(last: Segment, segment: Segment) -> bool:
    """A raised word that stands alone in the file's content, with its line before or after it."""
    small, large = sorted((last, segment), key=lambda piece: piece.size)
    gap = max(segment.x0 - last.x1, last.x0 - segment.x1)
    return (
        is_raised(small.words[0], large.words[0]) and small.y - large.y < 0.62 * large.size and gap < 0.6 * large.size
    )


def _sorted(row: Row) -> Row:
    if len(row) == 1:
        return row
    arabic = sum(len(piece.text) if is_right_to_left(piece.text) else -len(piece.text) for piece in row) > 0
    ordered = sorted(row, key=lambda piece: -piece.x1 if arabic else piece.x0)
    return list(_merged(ordered))


def _merged(row: Row) -> Iterator[Segment]:
    """Segments that turn out to touch, as a raised word and its line do."""
    held = row[0]
    for segment in row[1:]:
        if _adjacent(held.words, segment.words[0]):
            first = segment.words[0]
            touching = first.x0 - held.x1 < 0.12 * max(held.size, first.size) and held.size != segment.size
            words = [first._replace(glued=True), *segment.words[1:]] if touching else segment.words
            held = _segment([*held.words, *words])
        else:
            yield held
            held = segment
    yield held

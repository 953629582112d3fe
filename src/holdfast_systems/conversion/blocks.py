"""From rows in reading order to paragraphs, list items and tables; or, in a tagged file, from its tags."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from statistics import median_low

from holdfast_systems.conversion.inline import Span, spans_of
from holdfast_systems.conversion.layout import (
    HYPHENS,
    Row,
    Segment,
    Word,
    is_centred_over,
    line_numbers_of,
    rows_in_reading_order,
    text_of,
)
from holdfast_systems.conversion.pdf_tags import Tag

BULLETS = frozenset("•◦▪‣●○■□–—*·∙➢✓-\uf0b7\uf0a7\uf076\uf0d8")
_NUMBER = re.compile(r"\(?(\d{1,3}|[a-zA-Z]|[ivx]{1,4})[.)]")
_SECTION_START = re.compile(r"(?:\d{1,3}|[A-Z])(?:\.\d{1,3})*\.? +\S")
_LEADERS = re.compile(r"(\. ?){4,}")


@dataclass(slots=True)
class Line:
    """Settled, it has spans instead of words: a long document must not keep the place of each word."""

    words: list[Word]
    x0: float
    x1: float
    y: float
    size: float
    font: str
    bold: bool
    italic: bool
    spans: list[Span] = field(default_factory=list)
    raised: str = ""  # the raised word that a settled line begins with
    mixed: bool = False  # a settled bold line of which more than a quarter is not bold

    @property
    def text(self) -> str:
        if len(self.spans) == 1:
            return self.spans[0].text
        return "".join([span.text for span in self.spans]) if self.spans else text_of(self.words)

    def settle(self, targets: Mapping[Word, str]) -> None:
        if self.words:
            first = self.words[0]
            if first.size <= 0.87 * self.size and first.y - self.y >= 0.15 * self.size:
                self.raised = first.text
            if self.bold:
                plain = sum(len(word.text) for word in self.words if not word.bold)
                self.mixed = 4 * plain > sum(len(word.text) for word in self.words)
            self.spans = spans_of(self.words, self.y, self.size, targets)
            self.words = []


@dataclass(slots=True)
class Block:
    """`kind` is p, head, item, table, fw, note, figure or caption. A table has `cells` and no lines.

    `marker` is the bullet or number of an item, which its lines do not hold any more; `level` is the depth of a
    heading or of a list; `place` is where an `fw` stands."""

    lines: list[Line]
    kind: str = "p"
    marker: str = ""
    level: int = 0
    place: str = ""
    cells: list[list[list[Line]]] = field(default_factory=list)
    labels: int = 0  # how many rows of a table are its head

    @property
    def size(self) -> float:
        if len(self.lines) < 2:
            return self.lines[0].size if self.lines else 0.0
        return max(self.lines, key=lambda line: line.x1 - line.x0).size

    @property
    def text(self) -> str:
        return self.lines[0].text if len(self.lines) == 1 else " ".join([line.text for line in self.lines])

    @property
    def all_lines(self) -> Iterator[Line]:
        yield from self.lines
        yield from (line for row in self.cells for cell in row for line in cell)

    @property
    def top(self) -> float:
        return max((line.y for line in self.all_lines), default=0.0)


def blocks_of_page(words: Sequence[Word], tags: Mapping[int, Tag]) -> list[Block]:
    """The blocks of one page in reading order."""
    upright = [word for word in words if not word.sideways]
    numbers = line_numbers_of(upright)
    if numbers:
        aside = set(numbers)
        upright = [word for word in upright if word not in aside]
    if tags and sum(word.mark in tags for word in upright) > 0.6 * len(upright):
        blocks = list(_tagged(upright, tags))
    else:
        blocks = list(_joined(_found(rows_in_reading_order(upright))))
    sideways = [word for word in words if word.sideways]
    blocks += [Block([_line(held)], "fw", place="margin") for held in (numbers, sideways) if held]
    return blocks


def _line(words: list[Word]) -> Line:
    return _line_of([_as_segment(words)])


def _as_segment(words: list[Word]) -> Segment:
    main = max(words, key=lambda word: (word.size * len(word.text), word.size))
    x0, x1 = min(word.x0 for word in words), max(word.x1 for word in words)
    return Segment(words, x0, x1, main.y, main.size, main.font, main.bold, main.italic)


def _line_of(row: Row) -> Line:
    main = row[0]
    if len(row) == 1:
        return Line(main.words, main.x0, main.x1, main.y, main.size, main.font, main.bold, main.italic)
    main = max(row, key=lambda segment: sum(len(word.text) for word in segment.words))
    words = [word for segment in row for word in segment.words]
    x0, x1 = min(segment.x0 for segment in row), max(segment.x1 for segment in row)
    return Line(words, x0, x1, main.y, main.size, main.font, main.bold, main.italic)


def _tagged(words: Sequence[Word], tags: Mapping[int, Tag]) -> Iterator[Block]:
    nothing = Tag("Artifact", 0)
    table: Block | None = None
    for (_, row), group in groupby(words, key=lambda word: _place(tags.get(word.mark, nothing))):
        held = list(group)
        tag = tags.get(held[0].mark, nothing)
        if tag.table:
            if table is None or table.level != tag.table:
                if table is not None:
                    yield table
                table = Block([], "table", level=tag.table)
            _add_cell(table, tag, held, row)
            continue
        if table is not None:
            yield table
            table = None
        if tag.role == "Artifact":
            yield from (Block([line], "artifact") for line in _lines(held))
        else:
            yield _tagged_block(tag, held, tags)
    if table is not None:
        yield table


def _place(tag: Tag) -> tuple[int, int]:
    return tag.block, tag.row


def _add_cell(table: Block, tag: Tag, words: list[Word], row: int) -> None:
    if not table.place or table.place != str(row):
        table.cells.append([])
        table.place = str(row)
        if tag.role == "TH" and table.labels == len(table.cells) - 1:
            table.labels += 1
    table.cells[-1].append(_lines(words))


def _tagged_block(tag: Tag, words: list[Word], tags: Mapping[int, Tag]) -> Block:
    if tag.head_level:
        return Block(_lines(words), "head", level=tag.head_level)
    if tag.role == "LI" or (tag.depth and tag.role == "L"):
        labels = [word for word in words if (found := tags.get(word.mark)) is not None and found.label]
        rest = [word for word in words if word not in labels] if labels else words
        marker = text_of(labels) if labels else "•"
        return Block(_lines(rest or words), "item", marker=marker, level=max(1, tag.depth))
    kinds = {"Note": "note", "FENote": "note", "Caption": "caption"}
    return Block(_lines(words), kinds.get(tag.role, "p"))


def _lines(words: Sequence[Word]) -> list[Line]:
    """Words in content order as lines."""
    return [_line_of(row) for row in rows_in_reading_order(words)]


def _found(rows: list[Row]) -> Iterator[Block]:
    gaps = [above[0].y - below[0].y for above, below in pairwise(rows) if 0 < above[0].y - below[0].y < 60]
    pitch = median_low(gaps) if gaps else 0.0
    held: list[Line] = []
    marker, index = "", 0
    while index < len(rows):
        count = _table_length(rows, index)
        if count:
            if held:
                yield _paragraph(held, marker)
                held = []
            yield _table(rows[index : index + count])
            index += count
            continue
        line = _line_of(rows[index])
        found = _marker(line)
        if held and _begins(held, line, pitch, marker, found):
            yield _paragraph(held, marker)
            held = []
        if not held:
            marker = found
        held.append(line)
        index += 1
    if held:
        yield _paragraph(held, marker)


def _marker(line: Line) -> str:
    """The bullet or number that a line begins with."""
    if len(line.words) < 2 or line.words[1].glued:
        return ""
    first = line.words[0].text
    return first if first in BULLETS or _NUMBER.fullmatch(first) else ""


def _begins(held: list[Line], line: Line, pitch: float, marker: str, found: str) -> bool:
    """Whether `line` begins a block: by size, weight, gap, indent, marker, or a short last line before it."""
    above, first = held[-1], held[0]
    if abs(line.size - above.size) > 0.08 * above.size or (line.bold != above.bold and line.font != above.font):
        return True
    if line.y > above.y + 0.5 * line.size or above.y - line.y > 1.35 * max(pitch, 1.05 * above.size):
        return True
    if found and (found in BULLETS or _follows(marker, found) or line.x0 < above.x0 - 0.3 * line.size):
        return True
    if above is first and _SECTION_START.match(first.text) and is_centred_over(above, line):
        return True
    hanging = first.words[1].x0 if marker and len(first.words) > 1 else first.x0
    indent = line.x0 - above.x0
    heads = above is first and line.bold and indent < 4 * line.size and _SECTION_START.match(first.text)
    if indent > 0.8 * line.size and not heads and not (above is first and abs(line.x0 - hanging) < 0.6 * line.size):
        return True
    if marker and line.x0 < hanging - 0.8 * line.size and len(held) > 1:
        return True
    right = max(piece.x1 for piece in (*held, line))
    short = above.x1 < right - 0.25 * (right - min(above.x0, line.x0))
    return short and above.text.endswith((".", "!", "?", ":", "。"))


def _follows(marker: str, found: str) -> bool:
    """Whether `found` is the number after `marker`, or the first of a list."""
    before, after = (_NUMBER.fullmatch(each) for each in (marker or "0.", found))
    if after is None:
        return False
    value = after[1]
    if value in ("1", "a", "A", "i"):
        return True
    if before is None or found[-1] != (marker or "0.")[-1]:
        return False
    if value.isdigit():
        return before[1].isdigit() and int(value) == int(before[1]) + 1
    return len(value) == len(before[1]) == 1 and ord(value) == ord(before[1]) + 1


def _paragraph(lines: list[Line], marker: str) -> Block:
    if not marker:
        return Block(lines)
    lines[0].words = lines[0].words[1:]
    return Block(lines, "item", marker=marker, level=1)


def _joined(blocks: Iterator[Block]) -> Iterator[Block]:
    """Paragraphs that a column's end broke in two are one again."""
    held: Block | None = None
    for block in blocks:
        if held is not None and _goes_on(held, block):
            held.lines += block.lines
            continue
        if held is not None:
            yield held
        held = block
    if held is not None:
        yield held


def _goes_on(block: Block, following: Block) -> bool:
    if following.kind != "p" or block.kind not in ("p", "item") or abs(block.size - following.size) > 0.08 * block.size:
        return False
    last, first = block.lines[-1], following.lines[0]
    if first.y < last.y or first.bold != last.bold:
        return False  # it stands below, after a gap: that is another paragraph
    text, more = last.text, first.text
    return text.endswith(HYPHENS) or ((text[-1:].isalnum() or text.endswith(",")) and more[:1].islower())


def _table_length(rows: list[Row], start: int) -> int:
    """How many rows from `start` on are a table: short pieces that stand below each other."""
    columns: list[tuple[float, float]] = []
    full = index = 0
    index = start
    while index < len(rows):
        row = rows[index]
        if index > start and not 0 < rows[index - 1][0].y - row[0].y < 3.2 * row[0].size:
            break
        pieces = _cells(row)
        merged = _merge(columns, [(piece[0].x0, piece[-1].x1) for piece in pieces])
        if len(pieces) >= 2 and not _LEADERS.search(row[-1].text) and len(merged) >= max(2, len(columns) - 1):
            columns, full = merged, full + 1
        elif not (columns and len(merged) == len(columns) and pieces[0][0].x0 > columns[0][1]):
            break
        index += 1
    wide = len(columns) >= 3
    return index - start if full >= 3 or (wide and full >= 2) else 0


def _cells(row: Row) -> list[Row]:
    """The pieces of a row; a bullet or number belongs to what follows it."""
    pieces = [[segment] for segment in row]
    if len(row) > 1 and len(row[0].words) == 1 and (row[0].text in BULLETS or _NUMBER.fullmatch(row[0].text)):
        pieces = [[row[0], row[1]], *pieces[2:]]
    return pieces


def _merge(columns: list[tuple[float, float]], more: list[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for left, right in sorted([*columns, *more]):
        if merged and left < merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(right, merged[-1][1]))
        else:
            merged.append((left, right))
    return merged


def _table(rows: list[Row]) -> Block:
    columns: list[tuple[float, float]] = []
    for row in rows:
        columns = _merge(columns, [(segment.x0, segment.x1) for segment in row])
    block = Block([], "table")
    for row in rows:
        cells: list[list[Line]] = [[] for _ in columns]
        for segment in row:
            at = sum(segment.x0 > right for _, right in columns)
            cells[min(at, len(columns) - 1)].append(_line_of([segment]))
        if not cells[0] and block.cells:
            for cell, more in zip(block.cells[-1], cells, strict=True):
                cell += more
        else:
            block.cells.append(cells)
    block.labels = int(all(segment.bold for segment in rows[0]) and not all(segment.bold for segment in rows[-1]))
    return block

"""What only the whole document tells: its running lines, headings, notes and captions.

outline of the file --> headings it names       bold, large, numbered lines --> headings it does not
one place, many pages --> running lines         small print with a raised number --> notes
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from holdfast_systems.conversion.blocks import Block, Line
from holdfast_systems.conversion.headings import (
    CAPTION,
    HEAD_LINES_MAX,
    ReadPage,
    mark_heads,
    plain_text,
    without_number,
)
from holdfast_systems.conversion.inline import Area

_TABLE = re.compile(r"ta|bả", re.IGNORECASE)
_CODE = re.compile(r"mono|courier|typewriter|cmtt|consol|code", re.IGNORECASE)
_NOTE_MARK = re.compile(r"(\d{1,3}|[*†‡§¶]{1,3})")
_NUMBER = re.compile(r"\d+")
_PAGE_NUMBER = re.compile(r"(?<![\d.])\d+(?!\.?\d)")  # not a part of a section's
_TITLED = re.compile(r"(?:CHAPTER|APPENDIX|SECTION|PART)\s+[\dA-Z]|(?:\d{1,3}|[A-Z])(?:\.\d{1,3})+\.?\s+\w")
_ROMAN = re.compile(r"[ivxlc]{1,7}", re.IGNORECASE)


class Entry(NamedTuple):
    """A line of the file's outline; `page` counts from one, 0 where it leads nowhere."""

    title: str
    level: int
    page: int


def mark_structure(pages: Sequence[ReadPage], outline: Sequence[Entry]) -> None:
    """Give every block its kind."""
    body = _body_size(pages)
    _mark_running_lines(pages, body)
    matched = _mark_outline(pages, outline)
    tagged = any(block.kind == "head" for page in pages for block in page.blocks) and not matched
    if not tagged:
        mark_heads(pages, body, by_outline=len(outline) >= 3 and matched >= 0.6 * len(outline))
    for page in pages:
        page.blocks = list(_with_notes(page, body))
        _mark_captions(page, body)
        _unmark_lonely_items(page.blocks)


def _body_size(pages: Iterable[ReadPage]) -> float:
    """The size of most letters; those of code count only where nothing else is written."""
    weights: Counter[float] = Counter()
    for page in pages:
        for block in page.blocks:
            for line in block.lines:
                weights[line.size] += len(line.text) if not _CODE.search(line.font) else 0
    return max(weights, key=lambda size: (weights[size], -size)) if weights else 0.0


# A larger line runs only if it has the number of its page, and more words than "Chapter 3".
_RUNNING_SIZE, _RUNNING_SIZE_MAX, _RUNNING_WORDS = 1.25, 1.5, 3


def _mark_running_lines(pages: Sequence[ReadPage], body: float) -> None:
    """Lines at one height on several pages: with the same words but for numbers, with the page's number, or with the
    title of the chapter or section in capitals."""
    same: defaultdict[tuple[str, int, str], list[Block]] = defaultdict(list)
    numbered: defaultdict[tuple[str, int, int], list[Block]] = defaultdict(list)
    for page in pages:
        for place, block in _outermost(page):
            block.place = place
            if not _may_run(block, body):
                continue
            height, text = round(block.lines[0].y / 3), block.text
            if block.size <= _RUNNING_SIZE * body:
                same[place, height, _NUMBER.sub("#", text)].append(block)
            for number in {int(found) for found in _PAGE_NUMBER.findall(text)[:6] if len(found) < 6}:
                numbered[place, height, number - page.number].append(block)
            if _ROMAN.fullmatch(text):
                same[place, height, "roman"].append(block)
            if block.size <= body and text.isupper() and _TITLED.match(text):
                same[place, height, "titles"].append(block)
    for found in (*same.values(), *numbered.values()):
        if len(found) >= 3 or (len(found) == 2 and len(pages) <= 3):
            for block in found:
                block.kind = "fw"
    for block in (block for page in pages for block in page.blocks if block.kind == "artifact"):
        block.kind = "fw" if block.place else "p"


def _may_run(block: Block, body: float) -> bool:
    """A line by itself, not much larger than the text, and no note, which may stand as far down."""
    size_max = _RUNNING_SIZE_MAX if len(block.text.split()) >= _RUNNING_WORDS else _RUNNING_SIZE
    is_line = block.size <= size_max * body and len(block.lines) <= 1 and block.kind not in ("table", "fw", "head")
    return is_line and not block.lines[0].raised


def _outermost(page: ReadPage) -> Iterator[tuple[str, Block]]:
    """What stands in the top or bottom margin: the first and the last line of the page, and a second close to it."""
    shown = [block for block in page.blocks if block.lines and block.place != "margin"]
    for place, sign in (("top", 1), ("bottom", -1)):
        edge = max((sign * block.lines[0].y for block in shown), default=0.0)
        for block in shown:
            y = block.lines[0].y
            inside = y > 0.86 * page.height if place == "top" else y < 0.14 * page.height
            if inside and page.height and edge - sign * y < 1.7 * block.size:
                yield place, block


def _mark_outline(pages: Sequence[ReadPage], outline: Sequence[Entry]) -> int:
    """Mark the blocks that the outline names; returns how many of its lines were there."""
    by_page: defaultdict[int, list[Entry]] = defaultdict(list)
    for entry in outline:
        by_page[entry.page].append(entry)
    running = Counter(block.text for page in pages for block in page.blocks if block.kind == "fw")
    matched = 0
    for page in pages:
        once = {text for text in (block.text for block in page.blocks if block.kind == "fw") if running[text] == 1}
        for entry in by_page[page.number]:
            matched += _mark_entry(page, entry, set()) or (bool(once) and _mark_entry(page, entry, once))
    return matched


def _mark_entry(page: ReadPage, entry: Entry, running: set[str]) -> bool:
    """Find an entry on its page; among lines at a running line's place only if their text is in `running`."""
    wanted = {plain_text(entry.title), plain_text(without_number(entry.title))} - {""}
    for index, block in enumerate(page.blocks):
        if block.place == "matched" or (block.kind not in ("p", "item", "head") and block.text not in running):
            continue
        for count in range(1, min(HEAD_LINES_MAX, len(block.lines)) + 1):
            text = " ".join([block.marker, *(line.text for line in block.lines[:count])])
            if not {plain_text(text), plain_text(without_number(text.strip()))} & wanted:
                continue
            if count < len(block.lines):
                page.blocks.insert(index + 1, Block(block.lines[count:]))
                block.lines = block.lines[:count]
            block.kind, block.level, block.place = "head", max(1, entry.level), "matched"
            _take_number(page.blocks, index)
            return True
    return False


def _take_number(blocks: list[Block], index: int) -> None:
    """A chapter's number on a line of its own belongs to its heading."""
    before = blocks[index - 1] if index else None
    if before is None or before.kind != "p" or before.size < blocks[index].size:
        return
    if re.fullmatch(r"(?:chapter|part|appendix)?\s*[\dA-ZIVX]{1,4}\.?", before.text, re.IGNORECASE):
        blocks[index].lines = [*before.lines, *blocks[index].lines]
        blocks.pop(index - 1)


def _with_notes(page: ReadPage, body: float) -> Iterator[Block]:
    """Small print that begins with a raised number is a note, and each such number begins one."""
    for block in page.blocks:
        raised = block.lines[0].raised if block.lines else ""
        if block.kind not in ("p", "item") or block.size > 0.94 * body or not _NOTE_MARK.fullmatch(raised):
            yield block
            continue
        for lines in _parts(block.lines):
            first, mark = lines[0], lines[0].raised
            if first.spans and first.spans[0].text.strip() == mark:
                first.spans = first.spans[1:]
            if first.spans or len(lines) > 1:
                yield Block(lines, "note", marker=mark, place="bottom")


def _parts(lines: Sequence[Line]) -> Iterator[list[Line]]:
    held: list[Line] = []
    for line in lines:
        if held and _NOTE_MARK.fullmatch(line.raised):
            yield held
            held = []
        held.append(line)
    if held:
        yield held


def _mark_captions(page: ReadPage, body: float) -> None:
    """A caption goes to the table beside it; any other is that of a figure, which may have an image on the page."""
    images = _apart(page.images)
    for index, block in enumerate(page.blocks):
        if block.kind == "p":
            match = CAPTION.match(block.text)
            if match is None or not (match[3] or block.size < 0.95 * body) or len(block.text) > 1_500:
                continue
        elif block.kind != "caption":
            continue
        if _TABLE.match(block.text):
            beside = [page.blocks[at] for at in (index + 1, index - 1) if 0 <= at < len(page.blocks)]
            table = next((each for each in beside if each.kind == "table" and not each.lines), None)
            if table is not None:
                table.lines, block.kind = block.lines, "gone"
                continue
        block.kind = "figure"
        if images:
            images.remove(min(images, key=lambda box: min(abs(box.y0 - block.top), abs(box.y1 - block.top))))
    page.blocks = [block for block in page.blocks if block.kind != "gone"]
    for box in images:
        at = next(
            (at for at, block in enumerate(page.blocks) if block.kind != "fw" and block.top < box.y0), len(page.blocks)
        )
        page.blocks.insert(at, Block([], "figure"))


def _apart(images: Sequence[Area]) -> list[Area]:
    """Images that touch each other are one picture."""
    found: list[Area] = []
    for box in sorted(images, key=lambda each: -each.y1)[:200]:
        for index, other in enumerate(found):
            if box.x0 < other.x1 + 4 and other.x0 < box.x1 + 4 and box.y0 < other.y1 + 4 and other.y0 < box.y1 + 4:
                found[index] = Area(
                    min(box.x0, other.x0), min(box.y0, other.y0), max(box.x1, other.x1), max(box.y1, other.y1)
                )
                break
        else:
            found.append(box)
    return found[:50]


def _unmark_lonely_items(blocks: Sequence[Block]) -> None:
    """A number or a dash that begins only one paragraph is no list."""
    for index, block in enumerate(blocks):
        if block.kind != "item" or block.marker in "•◦▪‣●○■□":
            continue
        beside = [blocks[at] for at in (index - 1, index + 1) if 0 <= at < len(blocks)]
        if not any(each.kind == "item" for each in beside):
            block.kind = "p"

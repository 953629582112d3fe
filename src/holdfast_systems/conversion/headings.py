"""Headings by their looks: larger, bold, numbered, or one of the words that head a part of a paper.

A list of contents looks like its headings, and a label that returns on every page ("Synopsis") looks like one too: the
whole document tells them apart.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from holdfast_systems.conversion.blocks import BULLETS, Block
from holdfast_systems.conversion.inline import Area
from holdfast_systems.conversion.layout import is_centred_over

_HEAD_LETTERS_MAX, HEAD_LINES_MAX = 200, 4
_NUMBERED = re.compile(
    r"(?:(?:appendix|chapter|section|part)\s+)?(\d+(?:\.\d+)*|(?:[A-Z]|[IVX]{1,5})(?:\.\d+)+|[IVX]+|[A-Z])[.)]?\s+\S",
    re.I,
)
_KNOWN = re.compile(
    r"(abstract|(\d+\.?\s+)?introduction|(\d+\.?\s+)?conclusions?|references|bibliography|acknowledge?ments?|appendix|"
    r"contents|table of contents|index|preface|summary|tóm tắt|tài liệu tham khảo|kết luận|mục lục)",
    re.IGNORECASE,
)
_PAGE_NUMBER = re.compile(r"(?:(?:\s*\.){2,}|\s)\s*(?:\d{1,4}|[ivxlc]{1,7})\s*$|(?:\s*\.){3,}\s*$")
_LAST_NUMBER = re.compile(r"\s(\d{1,4})\s*$")
_LEADERS = re.compile(r"(?:\. ?){4,}")
_CONTENTS = re.compile(r"(?:table of )?contents|mục lục|inhalt(?:sverzeichnis)?|table des matières|índice", re.I)
_CHAPTER = re.compile(
    r"(?:chapter|part|appendix|annex|chapitre|partie|annexe|kapitel|teil|anhang|capítulo|parte|capitolo|hoofdstuk|rozdział"
    r"|kapitola|глава|часть|приложение|chương|phần)\s+[\dA-ZIVX]{1,5}\.?",
    re.IGNORECASE,
)
# What Sphinx sets above a chapter's title: "CHAPTER", and below it "TWO".
_CHAPTER_MARK = re.compile(
    r"chapter|appendix|part|(?:twenty|thirty|forty|fifty)?-?(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six"
    r"|seven|eigh|nine)teen|twenty|thirty|forty|fifty)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]{2}")
_CENTRED_SECTION = re.compile(r"(?:\d{1,2}|[A-Z]|[IVX]{1,5})(?:\.\d{1,2})*\.?\s+[^\W\d_].*[^.,;:]")
_SECTION = re.compile(r"(?:\d{1,3}|[A-Z]|[IVX]{1,5})(?:\.\d{1,3})+\.?\s+[^\W\d]")
CAPTION = re.compile(
    r"(figure|fig\.?|table|tab\.?|hình|bảng|abbildung|tabelle|tableau|figura|рис\.?|listing|algorithm)\s*[\dIVX]+([.\-–]\d+)*\s*([.:])?",
    re.IGNORECASE,
)
_LABEL_TIMES = 4  # a heading that returns so often under other headings is a label
_TEXT_SHARE = 0.25  # a look that so much of the document has is that of its text, however small its notes are
_CONTENTS_TIMES = 3
_NUMBERED_MIN = 8
_CERTAIN_MIN = 3
_NAME = re.compile(r"\S*(?:_|::|\(|=|[a-z][A-Z]|[A-Za-z]\d)\S*")
_TEXT_LETTERS_MIN = 400


@dataclass(slots=True)
class ReadPage:
    """`readable` is false where the file gives a page that cannot be loaded."""

    number: int
    blocks: list[Block]
    readable: bool = True
    height: float = 0.0
    images: list[Area] = field(default_factory=list)


def plain_text(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.casefold())


def without_number(text: str) -> str:
    return re.sub(
        r"^\W*(?:(?i:appendix|chapter|section|part)\s+)?(?:\d+(?:\.\d+)*|[A-Z](?:\.\d+)*|[IVXivx]+(?:\.\d+)*)[.):]?\s+",
        "",
        text,
    )


def mark_heads(pages: Sequence[ReadPage], body: float, *, by_outline: bool) -> None:
    """Headings by their looks: larger, bold, numbered, or one of the words that head a part of a paper."""
    looks: Counter[tuple[float, str]] = Counter()
    for page in pages:
        for block in page.blocks:
            for line in block.lines:
                looks[line.size, line.font] += len(line.text)
    for page in pages:
        _part_numbered(page)
    usual = looks.most_common(1)[0][0][1] if looks else ""
    found = [
        (page, block)
        for page in pages
        for block, following in zip_longest(page.blocks, page.blocks[1:])
        if _may_head(block, body, usual) or _is_centred_section(block, following, body)
    ]
    largest = max((block.size for page, block in found if page.number == pages[0].number), default=0.0)
    if by_outline:
        found = [(page, block) for page, block in found if block.size >= max(largest, 1.3 * body) and page is pages[0]]
    elsewhere = {_look(block) for page, block in found if page is not pages[0]}
    found = _without_contents(found)
    small = 1.12 * body
    opening = pages[0] if len(pages) > 2 else None
    written = opening is not None and _letters_of_text(opening, body) >= _TEXT_LETTERS_MIN
    kept = [
        block
        for page, block in _without_labels(found, small, looks)
        if page is not opening or block.size >= largest or (written and (_look(block) in elsewhere or _named(block)))
    ]
    _give_levels(kept, largest)
    for page in pages:
        _join_chapters(page)


def _without_labels(
    found: Sequence[tuple[ReadPage, Block]], small: float, looks: Counter[tuple[float, str]]
) -> Iterator[tuple[ReadPage, Block]]:
    """Without what looks like a heading and heads nothing: labels that return, names of functions and options, and
    bold type that much of the text is set in."""
    labels = Counter(_label(block) for _, block in found if not _numbered(block))
    inside = _inside_sections([block for _, block in found])
    certain = Counter(_look(block) for _, block in found if not _is_name(block))
    letters = sum(looks.values())
    deepest, common = _deepest_numbered([block for _, block in found]), max(0.1 * letters, 60)
    for page, block in found:
        returns = labels[_label(block)] >= _LABEL_TIMES and not _numbered(block)
        name = _is_name(block) and certain[_look(block)] < _CERTAIN_MIN
        text = looks[_look(block)] > common and not _named(block)
        function = block.size <= deepest and block.text[:1].islower() and not _named(block)
        large_text = len(block.text) > 40 and looks[_look(block)] > max(_TEXT_SHARE * letters, _TEXT_LETTERS_MIN)
        label = (block.size < small and (returns or name or text)) or (returns and _label(block) in inside)
        if not (function or large_text or label):
            yield page, block


def _inside_sections(found: Sequence[Block]) -> set[str]:
    """What comes again before any larger heading has come: labels such as "Note", however large they are. A section
    that each chapter has, such as "Summary", comes once in each."""
    again: Counter[str] = Counter()
    last: dict[str, int] = {}
    larger: list[tuple[tuple[float, bool], int]] = []  # ranks and places, falling: the last one above each that came
    for index, block in enumerate(found):
        rank = block.size, _numbered(block)
        while larger and larger[-1][0] <= rank:
            larger.pop()
        label = _label(block)
        if last.get(label, -1) > (larger[-1][1] if larger else -1):
            again[label] += 1
        last[label] = index
        larger.append((rank, index))
    return {label for label, times in again.items() if times >= 2}


def _look(block: Block) -> tuple[float, str]:
    return block.size, block.lines[0].font


def _is_name(block: Block) -> bool:
    """What may be the name of a thing in a program, and is a heading only where headings look so."""
    text = f"{block.marker} {block.text}".strip()
    return text[:1].islower() or bool(_NAME.fullmatch(text))


def _label(block: Block) -> str:
    """What may return with other words behind it: "Name: sin", "Name: cos"."""
    return plain_text(block.text.partition(":")[0])


def _deepest_numbered(found: Sequence[Block]) -> float:
    """The smallest size of headings that have numbers, where headings have them; what stands at it without one, or
    below it, is the name of a function or an option. 0.0 where headings have no numbers."""
    sizes = Counter(block.size for block in found if _SECTION.match(block.text) or _CHAPTER.match(block.text))
    if sum(sizes.values()) < max(_NUMBERED_MIN, 0.1 * len(found)):
        return 0.0
    return min((size for size, count in sizes.items() if count >= 3), default=0.0)


def _letters_of_text(page: ReadPage, body: float) -> int:
    return sum(len(block.text) for block in page.blocks if block.size <= 1.1 * body and block.kind in ("p", "item"))


def _without_contents(found: Sequence[tuple[ReadPage, Block]]) -> list[tuple[ReadPage, Block]]:
    """Without the lines of a list of contents: dotted ones, and on its pages those that have a page or come again."""
    last = {_words_of(block): page.number for page, block in found}
    by_page: defaultdict[int, list[Block]] = defaultdict(list)
    for page, block in found:
        by_page[page.number].append(block)
    kept, inside = [], -9  # the page up to which the list goes
    for page, block in found:
        blocks = by_page[page.number]
        listed = sum(_comes_again(each, page, last) for each in blocks)
        paged = sum(_leads_on(each, page) for each in blocks)
        begins = any(_CONTENTS.fullmatch(each.text.strip()) for each in blocks)
        if begins or (0 < page.number - inside <= 2 and 2 * max(listed, paged) >= len(blocks)):
            inside = page.number
        within = inside == page.number and _PAGE_NUMBER.search(block.text)
        again = (inside == page.number or listed >= _CONTENTS_TIMES) and _comes_again(block, page, last)
        if not within and not again and not _LEADERS.search(block.text):
            kept.append((page, block))
    return kept


def _leads_on(block: Block, page: ReadPage) -> bool:
    """Whether a line ends with the number of a later page."""
    match = _LAST_NUMBER.search(block.text)
    return match is not None and int(match[1]) > page.number


def _comes_again(block: Block, page: ReadPage, last: dict[str, int]) -> bool:
    """Whether a heading has the same words on a later page, with or without what may be that page's number."""
    entry = _PAGE_NUMBER.sub("", f"{block.marker} {block.text}".strip())
    return max(last[_words_of(block)], last.get(plain_text(without_number(entry)), 0)) > page.number


def _words_of(block: Block) -> str:
    return plain_text(without_number(f"{block.marker} {block.text}".strip()))


def _part_numbered(page: ReadPage) -> None:
    """Headings that stand right below each other, each with a number of its own, are several."""
    for index in range(len(page.blocks) - 1, -1, -1):
        block = page.blocks[index]
        several = block.kind == "p" and 1 < len(block.lines) <= HEAD_LINES_MAX
        if several and all(_SECTION.match(line.text) for line in block.lines):
            page.blocks[index : index + 1] = [Block([line]) for line in block.lines]


def _join_chapters(page: ReadPage) -> None:
    """ "Chapter 3" above a heading is its number; centred lines of one look right below each other are one heading."""
    for index in range(len(page.blocks) - 1, 0, -1):
        above, block = page.blocks[index - 1], page.blocks[index]
        headed = block.kind == "head" or _CHAPTER_MARK.fullmatch(block.text.strip())
        if above.kind == "head" and headed and _CHAPTER_MARK.fullmatch(above.text.strip()):
            above.kind, above.place = "fw", "top"
            continue
        if block.kind == above.kind == "head" and _is_centred_below(above, block):
            above.lines += block.lines
            page.blocks.pop(index)
            continue
        if block.kind == above.kind == "head" and _CHAPTER.fullmatch(above.text.strip()):
            block.lines, block.level = [*above.lines, *block.lines], min(above.level, block.level)
            page.blocks.pop(index - 1)


def _is_centred_below(above: Block, block: Block) -> bool:
    last, first = above.lines[-1], block.lines[0]
    same = (last.size, last.font) == (first.size, first.font) and 0 < last.y - first.y < 1.45 * first.size
    centred = abs(last.x0 + last.x1 - first.x0 - first.x1) < first.size and abs(last.x0 - first.x0) > first.size
    return same and centred and not _numbered(block)


def _numbered(block: Block) -> bool:
    return bool(_NUMBERED.match(f"{block.marker} {block.text}".strip()))


def _named(block: Block) -> bool:
    text = f"{block.marker} {block.text}".strip()
    return bool(_NUMBERED.match(text) or _KNOWN.fullmatch(text.rstrip(":.")))


def _may_head(block: Block, body: float, usual: str) -> bool:
    if block.kind not in ("p", "item") or not block.lines or len(block.lines) > HEAD_LINES_MAX:
        return False
    if block.kind == "item" and block.marker in BULLETS:
        return False
    text = f"{block.marker} {block.text}".strip()
    words = without_number(text)
    letters = sum(map(str.isalpha, words))
    if not _WORD.search(words) or letters > _HEAD_LETTERS_MAX or letters < 0.4 * len(words.replace(" ", "")):
        return False
    if (caption := CAPTION.match(text)) and caption[3]:
        return False
    first = block.lines[0]
    size, distinct = block.size, first.font != usual
    if size >= 1.12 * body and size >= body + 0.9:
        return not text.endswith((",", ";"))
    if size < 0.95 * body or (text.endswith((".", ",", ";", ":")) and not _KNOWN.fullmatch(text[:-1])):
        return False
    if len(block.lines) > 2 or len(text) > 120 or not text[0].isalnum():
        return False
    if all(line.bold and not line.mixed for line in block.lines) and distinct:
        return True
    shouted = text.isupper() and letters > 3
    if _SECTION.match(text) and without_number(text)[:1].isupper() and distinct:
        return True
    if _NUMBERED.match(text):
        return (distinct and (first.italic or "capitals" in first.font or shouted)) or shouted
    return (bool(_KNOWN.fullmatch(text)) and (distinct or shouted)) or ("capitals" in first.font and distinct)


def _is_centred_section(block: Block, following: Block | None, body: float) -> bool:
    """Whether a numbered line stands over the middle of its text, as some journals set headings: no larger than it."""
    if block.kind not in ("p", "item") or len(block.lines) != 1 or block.size < 0.85 * body:
        return False
    if following is None or following.kind not in ("p", "item") or not following.lines:
        return False
    text = f"{block.marker} {block.text}".strip()
    centred = is_centred_over(block.lines[0], max(following.lines, key=lambda line: line.x1 - line.x0))
    return centred and len(text) <= 120 and _CENTRED_SECTION.fullmatch(text) is not None


def _give_levels(heads: Sequence[Block], largest: float) -> None:
    ranks = sorted({(-block.size, not block.lines[0].bold, block.lines[0].italic) for block in heads})
    titled = any(block.size == largest and not _NUMBERED.match(block.text) for block in heads[:1])
    for block in heads:
        numbers = _NUMBERED.match(f"{block.marker} {block.text}".strip())
        rank = ranks.index((-block.size, not block.lines[0].bold, block.lines[0].italic)) + 1
        level = numbers[1].count(".") + 1 + titled if numbers and numbers[1][0].isdigit() else rank
        block.kind, block.level = "head", min(6, max(1, level))

"""Reads one page of a PDF: its words with their places and looks, its links, its pictures, its marked content.

    text of the page --blank--> tokens --change of text object--> words

The library is asked once per word and once per text object, never per character: a question costs more than the answer.
"""

from __future__ import annotations

import ctypes
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pypdfium2.raw as raw

from holdfast_systems.conversion.inline import Area
from holdfast_systems.conversion.layout import SOFT_HYPHEN, Word, is_right_to_left
from holdfast_systems.conversion.pdf_blanks import Blanks
from holdfast_systems.conversion.pdf_calls import (
    address_of,
    char_box,
    char_matrix,
    char_origin,
    font_of,
    font_size,
    mark_of,
    text_object,
)

Turn = Callable[[float, float], tuple[float, float]]
# The dots before a page's number are one token: they are many, and say nothing each by itself.
_TOKEN = re.compile(r"\.(?: \.){2,}(?!\S)|[^\s\u00a0]+")
_BOLD = re.compile(r"bold|black|heavy|demi|medi\b|cmbx|sfbx|ecbx|cmssbx|T[BZ]\d?$", re.IGNORECASE)
_ITALIC = re.compile(r"ital|obliq|cmti|sfti|slant|T[IZ]\d?$", re.IGNORECASE)
_CAPITALS = re.compile(r"csc|small-?caps|caps$|-SC\b", re.IGNORECASE)
_MARKER = re.compile(r"[•◦▪‣●○■□–—*·∙➢✓\-\uf0b7\uf0a7\uf076\uf0d8]|\(?(\d{1,3}|[a-zA-Z]|[ivx]{1,4})[.)]")
_CONTROL = re.compile("[\x00\x01\x03-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SHAPED = re.compile("[\ufb00-\ufdff\ufe70-\ufefc]")  # ligatures, and letters in the form of their place
_OBJECTS_MAX, _LINKS_MAX = 5_000, 5_000
_IMAGE_POINTS_MIN = 24.0


class PageContent(NamedTuple):
    """All in points, as the page is shown; y rises."""

    words: list[Word]
    links: list[tuple[Area, str]]
    images: list[Area]
    height: float


class _Look(NamedTuple):
    """How the words of one text object are shown."""

    size: float
    font: str
    bold: bool
    italic: bool
    sideways: bool
    mark: int
    y: float


def read_page(document: Any, page: Any, text: Any, blanks: Blanks, *, marked: bool) -> PageContent:
    """`marked`: whether the words shall know their marked content."""
    turn = _turn(page.get_rotation())
    width, height = page.get_size()
    links = list(_links(document, page, turn))
    areas = sorted((area for area, _ in links), key=lambda area: area.y0)
    heights = [area.y0 for area in areas]

    def within_link(word: Word) -> bool:
        """Whether a link lies on a part of the words only."""
        low, high = bisect_left(heights, word.y - 1.5 * word.size), bisect_left(heights, word.y + 1)
        x0, x1 = word.x0, word.x1
        return low < high and any(
            area.x0 < x1 and area.x1 > x0 and (area.x0 > x0 + 2 or area.x1 < x1 - 2) for area in areas[low:high]
        )

    words = list(_Words(text, turn, page.get_rotation(), blanks, marked).read(within_link))
    return PageContent(words, links, list(_images(page, turn, width * height)), height)


def _turn(turned: int) -> Turn | None:
    """Turns a point of the page into what the reader sees, as pages may be shown rotated."""
    turns: dict[int, Turn] = {
        90: lambda x, y: (y, -x),
        180: lambda x, y: (-x, -y),
        270: lambda x, y: (-y, x),
    }
    return turns.get(turned)


class _Words:
    def __init__(self, text: Any, turn: Turn | None, rotation: int, blanks: Blanks, marked: bool) -> None:
        self._text, self._turn, self._rotation, self._blanks, self._marked = text, turn, rotation, blanks, marked
        self._page = address_of(text.raw)
        self._edges = (ctypes.c_double * 4)()
        start = ctypes.addressof(self._edges)
        self._pointers = (start, start + 8, start + 16, start + 24)
        self._matrix = raw.FS_MATRIX()
        self._matrix_pointer = ctypes.addressof(self._matrix)
        self._dirty = False
        self._looks: dict[int, _Look] = {}
        self._fonts: dict[int, tuple[str, bool, bool]] = {}

    def read(self, within_link: Callable[[Word], bool]) -> Iterator[Word]:
        """The words in the order of the page's content. `glued` ones follow the word before without a blank.

        Words of one text object stay together, but for those that may be cells, markers or links."""
        text, page = _all_text(self._text), self._page
        self._dirty = _CONTROL.search(text) is not None
        tokens = [token.span() for token in _TOKEN.finditer(text)]
        if self._blanks.may_lack:
            tokens = self._blanks.parted(page, text, tokens)
        items = [text_object(page, start) for start, _ in tokens]
        items.append(None)
        index = 0
        while index < len(tokens):
            item, first = items[index], index
            while item is not None and items[index + 1] == item:
                index += 1
            end = tokens[index][1]
            index += 1
            if item is None or item != text_object(page, end - 1):
                if index - 1 > first and item is not None:
                    yield from self._together(text, tokens[first : index - 1], item, within_link)
                yield from self._in_pieces(text, *tokens[index - 1])
            elif index - first > 1:
                yield from self._together(text, tokens[first:index], item, within_link)
            elif (word := self._word(text[tokens[first][0] : end], tokens[first][0], end, item, False)) is not None:
                yield word

    def _together(
        self, text: str, tokens: list[tuple[int, int]], item: int, within_link: Callable[[Word], bool]
    ) -> Iterator[Word]:
        if len(tokens) > 1 and _MARKER.fullmatch(text, *tokens[0]):
            if (word := self._word(text[slice(*tokens[0])], *tokens[0], item, False)) is not None:
                yield word
            tokens = tokens[1:]
        start, end = tokens[0][0], tokens[-1][1]
        part = text[start:end]
        whole = self._word(part, start, end, item, False)
        if whole is None:
            return
        if len(tokens) > 1 and (
            whole.x1 - whole.x0 > 0.7 * whole.size * len(part)
            or within_link(whole)
            or (not part.isascii() and is_right_to_left(part))
        ):
            words = (self._word(text[begin:stop], begin, stop, item, False) for begin, stop in tokens)
            yield from (word for word in words if word is not None)
        else:
            yield whole

    def _in_pieces(self, text: str, start: int, end: int) -> Iterator[Word]:
        glued = False
        for begin, stop, item in self._pieces(start, end):
            if item is None or (word := self._word(text[begin:stop], begin, stop, item, glued)) is None:
                continue
            yield word
            glued = True

    def _pieces(self, start: int, end: int) -> list[tuple[int, int, int | None]]:
        """A token cut where its look or its baseline changes, as before a raised number."""
        pieces: list[tuple[int, int, int | None]] = []
        for index in range(start, end):
            item = text_object(self._page, index)
            if pieces and (item == pieces[-1][2] or item is None or self._same(pieces[-1], index, item)):
                pieces[-1] = (pieces[-1][0], index + 1, pieces[-1][2] or item)
            else:
                pieces.append((index, index + 1, item))
        return pieces

    def _same(self, piece: tuple[int, int, int | None], index: int, item: int) -> bool:
        if piece[2] is None:
            return True
        before, after = self._look(piece[2], piece[0]), self._look(item, index)
        return before[:-1] == after[:-1] and abs(before.y - after.y) < 0.1 * after.size

    def _word(self, text: str, begin: int, stop: int, item: int, glued: bool) -> Word | None:
        page, edges, (at0, at1, at2, at3) = self._page, self._edges, self._pointers
        if self._dirty:
            text = " ".join(_CONTROL.sub("", text).split())
        if not text or not char_box(page, begin, at0, at1, at2, at3):
            return None
        look = self._looks.get(item) or self._look(item, begin)
        size, font, bold, italic, sideways, mark, y = look
        x0, x1, low, high = edges
        if stop - begin > 1 and char_box(page, stop - 1, at0, at1, at2, at3):
            if edges[0] < x0:
                x0 = edges[0]
            elif not text.isascii() and is_right_to_left(text):
                text = text[::-1]  # the file has it as it is seen, from the left
            if edges[1] > x1:
                x1 = edges[1]
            if self._turn:
                low, high = min(low, edges[2]), max(high, edges[3])
        if self._turn:
            (x0, _), (x1, _) = sorted((self._turn(x0, low), self._turn(x1, high)))
        if text[-1] in "\x02\ufffe" or not text.isascii():
            text = _as_written(text)
        return tuple.__new__(Word, (text, x0, x1, y, size, font, bold, italic, glued, mark, sideways))

    def _look(self, item: int, index: int) -> _Look:
        look = self._looks.get(item)
        if look is None:
            self._looks[item] = look = self._look_at(item, index)
        return look

    def _look_at(self, item: int, index: int) -> _Look:
        """Five questions for each text object, and on many pages each word is one: what needs not be asked is not."""
        page, matrix = self._page, self._matrix
        points, a, b, y = font_size(page, index), 1.0, 0.0, 0.0
        scale, sideways, upright = 1.0, False, False
        if char_matrix(page, index, self._matrix_pointer):
            a, b, c, d, y = matrix.a, matrix.b, matrix.c, matrix.d, matrix.f
            scale = a if not (b or c) and a == d > 0 else abs(a * d - b * c) ** 0.5
            sideways = (abs(b) > abs(a)) is (self._rotation in (0, 180))
            upright = not b and self._turn is None
        if not upright:
            y = self._height_of(index)
        font = font_of(item) or 0
        name, bold, italic = self._fonts.get(font) or self._font(font)
        mark = mark_of(item) if self._marked else -1
        return tuple.__new__(_Look, (max(0.1, round(points * scale, 1)), name, bold, italic, sideways, mark, y))

    def _height_of(self, index: int) -> float:
        """The baseline of a letter that is turned, or that no matrix places."""
        held = list(self._edges)  # the caller is using them
        char_origin(self._page, index, *self._pointers[:2])
        x, y = self._edges[0], self._edges[1]
        self._edges[:] = held
        return self._turn(x, y)[1] if self._turn else y

    def _font(self, font: int) -> tuple[str, bool, bool]:
        name = ""
        if font:
            buffer = ctypes.create_string_buffer(256)
            raw.FPDFFont_GetBaseFontName(ctypes.cast(font, raw.FPDF_FONT), buffer, 256)
            name = buffer.value.decode("utf-8", "replace").rpartition("+")[2]
            if _CAPITALS.search(name):
                name += " capitals"
        self._fonts[font] = (name, bool(_BOLD.search(name)), bool(_ITALIC.search(name)))
        return self._fonts[font]


# An accent is a glyph of its own in the older fonts of TeX, and comes before its letter. Not before consonants that may
# follow what stands for an apostrophe.
_ACCENTS = dict(
    zip(
        "\u00b4\u00a8\u02c6\u02dc\u02c7\u02da\u02d8\u02dd",
        "\u0301\u0308\u0302\u0303\u030c\u030a\u0306\u030b",
        strict=True,
    )
)
_SET_OVER = re.compile(f"([{''.join(_ACCENTS)}])([aceinouyzACEINOUYZ\u0131]|(?<=[\u02c7\u02d8])[gsrdtGSRDT])")


def _as_written(text: str) -> str:
    """Letters instead of ligatures, with the accents that were set over them, and a hyphen that ends a line as one that
    may go."""
    text = _SET_OVER.sub(_with_accent, text)
    if _SHAPED.search(text):
        text = unicodedata.normalize("NFKC", text)
    return text[:-1] + SOFT_HYPHEN if text[-1] in "\x02\ufffe" else text


def _with_accent(match: re.Match[str]) -> str:
    """The letter with its accent; both as they are where no alphabet has it."""
    letter = match[2].replace("\u0131", "i")
    whole = unicodedata.normalize("NFC", letter + _ACCENTS[match[1]])
    return whole if len(whole) == 1 else match[0]


def _all_text(text: Any) -> str:
    """The characters of a page, each at its own index."""
    count = text.count_chars()
    if count <= 0:
        return ""
    buffer = (ctypes.c_ushort * (2 * count + 1))()
    written = raw.FPDFText_GetText(text, 0, count, buffer)
    found = bytes(memoryview(buffer).cast("B")[: 2 * max(0, written - 1)]).decode("utf-16-le", "surrogatepass")
    if len(found) == count:
        return found
    return "".join(chr(raw.FPDFText_GetUnicode(text, index)) for index in range(count))


def _links(document: Any, page: Any, turn: Turn | None) -> Iterator[tuple[Area, str]]:
    position, link, area = ctypes.c_int(0), raw.FPDF_LINK(), raw.FS_RECTF()
    for _ in range(_LINKS_MAX):
        if not raw.FPDFLink_Enumerate(page, ctypes.byref(position), ctypes.byref(link)):
            return
        if raw.FPDFLink_GetAnnotRect(link, ctypes.byref(area)) and (target := _target(document, link)):
            yield _box(area.left, area.bottom, area.right, area.top, turn), target


def _target(document: Any, link: Any) -> str:
    """An address, or `#page-N` for a place in the same document."""
    action = raw.FPDFLink_GetAction(link)
    destination = raw.FPDFLink_GetDest(document, link)
    if action and raw.FPDFAction_GetType(action) == raw.PDFACTION_URI:
        size = raw.FPDFAction_GetURIPath(document, action, None, 0)
        buffer = ctypes.create_string_buffer(size)
        raw.FPDFAction_GetURIPath(document, action, buffer, size)
        return buffer.value.decode("utf-8", "replace")
    if action and not destination:
        destination = raw.FPDFAction_GetDest(document, action)
    number = raw.FPDFDest_GetDestPageIndex(document, destination) if destination else -1
    return f"#page-{number + 1}" if number >= 0 else ""


def _images(page: Any, turn: Turn | None, page_area: float) -> Iterator[Area]:
    """Pictures within the page. One that fills it is a scan, or a background."""
    edges = [ctypes.c_float() for _ in range(4)]
    pointers = [ctypes.byref(edge) for edge in edges]
    for index in range(min(_OBJECTS_MAX, raw.FPDFPage_CountObjects(page))):
        item = raw.FPDFPage_GetObject(page, index)
        if raw.FPDFPageObj_GetType(item) != raw.FPDF_PAGEOBJ_IMAGE or not raw.FPDFPageObj_GetBounds(item, *pointers):
            continue
        left, bottom, right, top = (edge.value for edge in edges)
        box = _box(left, bottom, right, top, turn)
        wide, high = box.x1 - box.x0, box.y1 - box.y0
        if min(wide, high) >= _IMAGE_POINTS_MIN and wide * high < 0.8 * page_area:
            yield box


def _box(left: float, bottom: float, right: float, top: float, turn: Turn | None) -> Area:
    if turn:
        (left, bottom), (right, top) = turn(left, bottom), turn(right, top)
    return Area(min(left, right), min(bottom, top), max(left, right), max(bottom, top))

"""Blanks that the library overlooks, found by the steps between letters."""

from __future__ import annotations

import ctypes
import re
from itertools import pairwise

import pypdfium2.raw as raw

from holdfast_systems.conversion.pdf_calls import char_matrix, font_size, loose_box

_BESIDE_BLANK = re.compile(r"[\w.,;:!?)'’\"”][^\W_]")
_BLANK_MIN = 0.17  # of the letters' size: steps between letters are below 0.1, narrow blanks above 0.2
_SAMPLE_TOKENS, _PARTED_MIN = 1_000, 0.003


class Blanks:
    """Finds the blanks that the library overlooks, as in what groff sets: there a blank is only a small step.

    The first pages tell whether a document has such; most have none, and are not looked through letter by letter."""

    def __init__(self) -> None:
        self.may_lack = True
        self._seen = self._parted = 0
        self._edges = (ctypes.c_float * 4)()  # left, top, right, bottom
        self._at, self._matrix = ctypes.addressof(self._edges), raw.FS_MATRIX()

    def parted(self, page: int, text: str, tokens: list[tuple[int, int]]) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for start, end in tokens:
            found += self._pieces(page, text, start, end) if end - start > 2 else [(start, end)]
        if self._seen < _SAMPLE_TOKENS:
            self._seen += len(tokens)
            self._parted += len(found) - len(tokens)
            self.may_lack = self._seen < _SAMPLE_TOKENS or self._parted >= _PARTED_MIN * self._seen
        return found

    def _pieces(self, page: int, text: str, start: int, end: int) -> list[tuple[int, int]]:
        if text.startswith(". .", start) or not loose_box(page, start, self._at):
            return [(start, end)]
        edges, cuts, level = self._edges, [start], self._edges[3]
        right, least = edges[2], _BLANK_MIN * self._size(page, start)
        steps = 0
        for index in range(start + 1, end):
            loose_box(page, index, self._at)
            if edges[0] - right > least:
                steps += 1
                if edges[3] == level and _BESIDE_BLANK.match(text, index - 1):
                    cuts.append(index)
            right = edges[2]
        if 2 * steps > end - start:
            return [(start, end)]  # letters set apart
        return list(pairwise([*cuts, end]))

    def _size(self, page: int, index: int) -> float:
        known = char_matrix(page, index, ctypes.addressof(self._matrix))
        size: float = font_size(page, index)
        return size * abs(self._matrix.a) if known else size

"""Reads scans: pages that hold a picture and no text. Needs the extra `ocr`: RapidOCR, which carries its models.

A stranger's file is drawn in the sandbox (`pdf_pictures`); here only pixels arrive. It takes seconds of CPU a page:
call it from a thread; threads wait for each other.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import threading
import time
from functools import cache
from io import StringIO
from typing import Any, BinaryIO

from holdfast import CallError, Category
from holdfast_systems.conversion.blocks import blocks_of_page
from holdfast_systems.conversion.headings import ReadPage
from holdfast_systems.conversion.layout import Word
from holdfast_systems.conversion.pdf_pictures import Picture, read_pictures
from holdfast_systems.conversion.structure import mark_structure
from holdfast_systems.conversion.tei import METADATA, write_tei

PACKAGE = "rapidocr_onnxruntime"
_SURE = 0.6
# What a line's box is high, in sizes of its letters.
_BOX_HEIGHT = 1.25
# A blank is as wide as this share of a line's height; darker than this is ink.
_BLANK, _DARK = 0.18, 140
_BEFORE_MARK = re.compile(r"\s+([.,:;!?)])")
_alone = threading.Lock()


def is_installed() -> bool:
    return importlib.util.find_spec(PACKAGE) is not None


def tei_of_pictures(source: BinaryIO, timeout_s: float) -> bytes | None:
    """The TEI of what can be read in the pictures; None if nothing can. Raises CallError when its time is over."""
    started_s = time.monotonic()
    pages: list[ReadPage] = []
    with _alone:
        for picture in read_pictures(source):
            if time.monotonic() - started_s > timeout_s:
                raise CallError.of(Category.NETWORK, "GATEWAY_TIMEOUT", f"Reading took longer than {timeout_s:g} s.")
            pages.append(_page(len(pages) + 1, picture))
    if not any(page.blocks for page in pages):
        return None
    mark_structure(pages, [])
    out = StringIO()
    write_tei(out, pages, dict.fromkeys(METADATA, ""), "")
    return out.getvalue().encode()


def _page(number: int, picture: Picture) -> ReadPage:
    import numpy as np

    pixels = np.frombuffer(picture.pixels, np.uint8).reshape(picture.rows, picture.columns)
    found, _ = _engine()(pixels, use_cls=False)
    scale = picture.columns / picture.width
    blocks = blocks_of_page([word for seen in found or () for word in _words(pixels, seen, scale, picture.height)], {})
    for block in blocks:
        for line in block.all_lines:
            line.settle({})
    return ReadPage(number, blocks, height=picture.height)


def _words(pixels: Any, seen: Any, scale: float, height: float) -> list[Word]:
    """A line that was seen, as one word with its place in points; none where the reader is not sure."""
    corners, text, sure = seen
    if float(sure) < _SURE or not text.strip():
        return []
    left, right = min(x for x, _ in corners), max(x for x, _ in corners)
    top, bottom = min(y for _, y in corners), max(y for _, y in corners)
    size = max(1.0, float(round((bottom - top) / scale / _BOX_HEIGHT)))
    baseline = height - (bottom - 0.2 * (bottom - top)) / scale
    text = _with_blanks(pixels[max(0, int(top)) : int(bottom) + 1, max(0, int(left)) : int(right) + 1], text)
    return [Word(text, left / scale, right / scale, baseline, size)]


def _with_blanks(line: Any, text: str) -> str:
    """The text of a line with the blanks that its picture has: where the model lost some, it reads word by word."""
    import numpy as np

    pieces = _pieces(np.flatnonzero((line < _DARK).any(axis=0)).tolist(), _BLANK * len(line))
    if len(text.split()) >= len(pieces):
        return " ".join(text.split())
    crops = [line[:, max(0, start - 3) : end + 4] for start, end in pieces]
    read, _ = _engine().text_rec([np.repeat(crop[:, :, None], 3, axis=2) for crop in crops])
    return _BEFORE_MARK.sub(r"\1", " ".join(" ".join(word.split()) for word, _ in read if word.strip()))


def _pieces(dark: list[int], gap_min: float) -> list[tuple[int, int]]:
    """The first and last dark column of each piece between gaps."""
    pieces: list[tuple[int, int]] = []
    for column in dark:
        if pieces and column - pieces[-1][1] <= gap_min:
            pieces[-1] = (pieces[-1][0], column)
        else:
            pieces.append((column, column))
    return pieces


@cache
def _engine() -> Any:
    # More threads than one would take the machine from the jobs beside this one.
    return importlib.import_module(PACKAGE).RapidOCR(intra_op_num_threads=1, inter_op_num_threads=1)

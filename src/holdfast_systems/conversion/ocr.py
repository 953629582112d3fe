"""Reads scans: pages that hold a picture and no text. Needs the extra `ocr`: RapidOCR, which carries its models.

A stranger's file is drawn in the sandbox (`pdf_pictures`); here only pixels arrive. It takes seconds of CPU a page:
call it from a thread; threads wait for each other.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
import time
from functools import cache
from io import StringIO
from typing import Any, BinaryIO

from holdfast import CallError, Category
from holdfast_systems.conversion.blocks import blocks_of_page
from holdfast_systems.conversion.headings import Page
from holdfast_systems.conversion.layout import Word
from holdfast_systems.conversion.pdf_pictures import Picture, read_pictures
from holdfast_systems.conversion.structure import mark_structure
from holdfast_systems.conversion.tei import METADATA, write_tei

PACKAGE = "rapidocr_onnxruntime"
_SURE = 0.6
# What a line's box is high, in sizes of its letters.
_BOX_HEIGHT = 1.25
_alone = threading.Lock()


def is_installed() -> bool:
    return importlib.util.find_spec(PACKAGE) is not None


def tei_of_pictures(source: BinaryIO, timeout_s: float) -> bytes | None:
    """The TEI of what can be read in the pictures; None if nothing can. Raises CallError when its time is over."""
    started_s = time.monotonic()
    pages: list[Page] = []
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


def _page(number: int, picture: Picture) -> Page:
    import numpy as np

    pixels = np.frombuffer(picture.pixels, np.uint8).reshape(picture.rows, picture.columns)
    found, _ = _engine()(pixels)
    scale = picture.columns / picture.width
    blocks = blocks_of_page([word for seen in found or () for word in _words(seen, scale, picture.height)], {})
    for block in blocks:
        for line in block.all_lines:
            line.settle({})
    return Page(number, blocks, height=picture.height)


def _words(seen: Any, scale: float, height: float) -> list[Word]:
    """A line that was seen, as one word with its place in points; none where the reader is not sure."""
    corners, text, sure = seen
    if float(sure) < _SURE or not text.strip():
        return []
    left, right = min(x for x, _ in corners), max(x for x, _ in corners)
    top, bottom = min(y for _, y in corners), max(y for _, y in corners)
    size = max(1.0, float(round((bottom - top) / scale / _BOX_HEIGHT)))
    baseline = height - (bottom - 0.2 * (bottom - top)) / scale
    return [Word(" ".join(text.split()), left / scale, right / scale, baseline, size)]


@cache
def _engine() -> Any:
    # More threads than one would take the machine from the jobs beside this one.
    return importlib.import_module(PACKAGE).RapidOCR(intra_op_num_threads=1, inter_op_num_threads=1)

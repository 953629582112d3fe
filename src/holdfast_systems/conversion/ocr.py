"""Reads scans: pages that hold a picture and no text. Needs the extra `ocr`: RapidOCR, which carries its models.

    worker                       sandbox of `pdf_pictures`       sandbox of this module, one child a page
    the document           --->  draws all of its pages
    a picture                                              --->  reads it: what it says, and where
    TEI of all lines       <------------------------------------  JSON, which is believed only as far as it fits

It takes seconds of CPU a page, and a page made to take minutes is ended: call it from a thread; threads wait for each
other.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import tempfile
import threading
import time
from functools import cache
from io import StringIO
from typing import Any, BinaryIO

from pydantic import TypeAdapter, ValidationError

from holdfast import CallError, Category
from holdfast_systems.conversion.blocks import blocks_of_page
from holdfast_systems.conversion.headings import ReadPage
from holdfast_systems.conversion.layout import Word
from holdfast_systems.conversion.pdf_pictures import Picture, read_pictures, write_picture
from holdfast_systems.conversion.structure import mark_structure
from holdfast_systems.conversion.tei import METADATA, write_tei
from holdfast_systems.sandbox.parent import Confines, SandboxDown, sandbox_for
from holdfast_systems.sandbox.task import Options, Task

PACKAGE = "rapidocr_onnxruntime"
NAME = "holdfast_systems.conversion.ocr:TASK"
# The models and their workings take 800 MB of addresses before they read anything.
PAGE = Confines(cpu_s=18, memory_bytes=3 << 30, output_bytes=4 << 20, wall_s=28.0)
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
    blocks = blocks_of_page(_read_in_sandbox(picture), {})
    for block in blocks:
        for line in block.all_lines:
            line.settle({})
    return ReadPage(number, blocks, height=picture.height)


_Lines = TypeAdapter(list[tuple[str, float, float, float, float]])


def _read_in_sandbox(picture: Picture) -> list[Word]:
    """The lines of a page; none of one that takes more than any honest page does."""
    with tempfile.TemporaryFile(buffering=0) as source, tempfile.TemporaryFile(buffering=0) as output:
        write_picture(source, picture)
        source.seek(0)
        try:
            ending = sandbox_for(NAME).run_blocking(source, output, PAGE, {})
        except SandboxDown as error:
            raise CallError.of(Category.UPSTREAM, "LOCAL_PRESSURE", str(error)) from error
        if ending.out_of_time and ending.cpu_s < PAGE.cpu_s / 2:
            raise CallError.of(Category.NETWORK, "GATEWAY_TIMEOUT", "The machine was too busy to read a page.")
        output.seek(0)
        try:
            lines = _Lines.validate_json(output.read()) if ending.status == 0 else []
        except ValidationError as error:
            raise CallError.of(Category.UPSTREAM, "CONVERTER_BROKEN", "The reader of scans wrote no lines.") from error
    return [Word(*line) for line in lines]


def run(source: int, target: int, options: Options) -> int:
    """Read the picture of the open file `source`: the lines as words with their places in points, as JSON."""
    with open(source, "rb", closefd=False) as given, open(target, "wb", closefd=False) as out:
        lines = [word for picture in read_pictures(given) for word in _lines(picture)]
        out.write(json.dumps([word[:5] for word in lines]).encode())
    return 0


def _lines(picture: Picture) -> list[Word]:
    import numpy as np

    pixels = np.frombuffer(picture.pixels, np.uint8).reshape(picture.rows, picture.columns)
    found, _ = _engine()(pixels, use_cls=False)
    scale = picture.columns / picture.width
    return [word for seen in found or () for word in _words(pixels, seen, scale, picture.height)]


def warm_up() -> None:
    """Read a dark bar of our own, so that the models are loaded."""
    rows = [bytes([255] * 256)] * 24 + [bytes([255] * 40 + [0] * 176 + [255] * 40)] * 16 + [bytes([255] * 256)] * 24
    _lines(Picture(92.0, 23.0, 256, 64, b"".join(rows)))


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


TASK = Task(run, warm_up)

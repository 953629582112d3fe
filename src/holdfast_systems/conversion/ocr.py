"""Reads scans: pages that hold a picture and no text. Needs the extra `ocr` (RapidOCR, which carries its models).

It runs as a task of its own in the sandbox, after the converter has found no text: it takes seconds a page and more
memory than any PDF with text. The models are loaded in the fork server; a child opens no file.
"""

from __future__ import annotations

import importlib.util
import signal
import sys
from functools import cache
from io import TextIOWrapper
from typing import Any, BinaryIO

import pypdfium2 as pdfium

from holdfast.sandbox.task import Options, Task
from holdfast_systems.conversion.blocks import blocks_of_page
from holdfast_systems.conversion.headings import Page
from holdfast_systems.conversion.layout import Word
from holdfast_systems.conversion.pdf_to_xml import Exit, Refused, exit_of, metadata_of, opened
from holdfast_systems.conversion.structure import mark_structure
from holdfast_systems.conversion.tei import write_tei

PACKAGE = "rapidocr_onnxruntime"
# Dots an inch: letters of ten points are then 28 high, which is what the models were made for.
_DPI = 200
_PIXELS_MAX = 12_000_000
_SURE = 0.6
# What a line's box is high, in sizes of its letters.
_BOX_HEIGHT = 1.25


def is_installed() -> bool:
    return importlib.util.find_spec(PACKAGE) is not None


def run(source: int, target: int, options: Options) -> int:
    with open(target, "wb", closefd=False) as out:
        return exit_of(lambda: _convert(source, out, int(options["pages"] or 0), float(options["page_cpu_s"] or 0)))


def _convert(source: int, out: BinaryIO, pages_max: int, page_cpu_s: float) -> None:
    document = opened(source)
    if len(document) > pages_max:
        raise Refused(Exit.TOO_MANY_PAGES)
    pages = []
    for index in range(len(document)):
        signal.setitimer(signal.ITIMER_PROF, page_cpu_s)
        pages.append(_page(document, index))
    signal.setitimer(signal.ITIMER_PROF, 0)
    if not any(page.blocks for page in pages):
        raise Refused(Exit.EMPTY)
    mark_structure(pages, [])
    text = TextIOWrapper(out, encoding="utf-8", newline="\n")
    write_tei(text, pages, metadata_of(document), "")
    text.detach()


def _page(document: Any, index: int) -> Page:
    try:
        page = document[index]
    except pdfium.PdfiumError:
        return Page(index + 1, [], readable=False)
    width, height = page.get_size()
    scale = min(_DPI / 72, (_PIXELS_MAX / max(1.0, width * height)) ** 0.5)
    picture = page.render(scale=scale, grayscale=True).to_numpy()
    page.close()
    blocks = blocks_of_page(list(_words(picture, scale, height)), {})
    for block in blocks:
        for line in block.all_lines:
            line.settle({})
    return Page(index + 1, blocks, height=height)


def _words(picture: Any, scale: float, height: float) -> list[Word]:
    """Each line that is seen, as one word with its place in points."""
    found, _ = _engine()(picture)
    words = []
    for corners, text, sure in found or ():
        if float(sure) < _SURE or not text.strip():
            continue
        left, right = min(x for x, _ in corners), max(x for x, _ in corners)
        top, bottom = min(y for _, y in corners), max(y for _, y in corners)
        size = round((bottom - top) / scale / _BOX_HEIGHT, 0)
        baseline = height - (bottom - 0.2 * (bottom - top)) / scale
        words.append(Word(" ".join(text.split()), left / scale, right / scale, baseline, max(1.0, size)))
    return words


@cache
def _engine() -> Any:
    from rapidocr_onnxruntime import RapidOCR

    # One thread: a child of a fork has no other.
    return RapidOCR(intra_op_num_threads=1, inter_op_num_threads=1, print_verbose=False)


def warm_up() -> None:
    """Load the models and use each of them once."""
    if not is_installed():
        print(f"{PACKAGE} is not installed", file=sys.stderr)
        return
    import cv2
    import numpy as np

    cv2.setNumThreads(1)
    picture = np.full((200, 600), 255, np.uint8)
    cv2.putText(picture, "Warm and up", (30, 120), cv2.FONT_HERSHEY_SIMPLEX, 2, (0, 0, 0), 4)
    _engine()(picture)


TASK = Task(run, warm_up)

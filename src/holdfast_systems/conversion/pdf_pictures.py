"""Draws the pages of a PDF as grey pictures: a task of the sandbox, for what reads scans (`ocr`).

The output is plain numbers, in which a hostile file cannot hide anything: for each page its size in points and in
pixels, then a byte for each pixel.
"""

from __future__ import annotations

import signal
import struct
from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import Any, BinaryIO, NamedTuple

import pypdfium2 as pdfium

from holdfast_systems.conversion.pdf_to_xml import SAMPLE, Exit, RefusedDocument, exit_of, opened
from holdfast_systems.sandbox.task import Options, Task

_HEAD = struct.Struct("<ddII")
# Dots an inch: letters of ten points are then 28 high, which is what readers were made for.
_DPI = 200
_PIXELS_MAX = 6_000_000


class Picture(NamedTuple):
    """A page: its size in points, its size in pixels, and a byte of brightness for each of them, row by row."""

    width: float
    height: float
    columns: int
    rows: int
    pixels: bytes


def run(source: int, target: int, options: Options) -> int:
    return exit_of(draw_pages, source, target, options)


def draw_pages(source: int, out: BinaryIO, pages_max: int, page_cpu_s: float = 0.0) -> None:
    """Write the pages of the open file `source` as pictures, or raise `RefusedDocument`."""
    document = opened(source)
    if len(document) > pages_max:
        raise RefusedDocument(Exit.TOO_MANY_PAGES)
    for index in range(len(document)):
        signal.setitimer(signal.ITIMER_PROF, page_cpu_s)
        _draw(document, index, out)
    signal.setitimer(signal.ITIMER_PROF, 0)


def _draw(document: Any, index: int, out: BinaryIO) -> None:
    try:
        page = document[index]
    except pdfium.PdfiumError:
        return
    width, height = page.get_size()
    scale = min(_DPI / 72, (_PIXELS_MAX / max(1.0, width * height)) ** 0.5)
    bitmap = page.render(scale=scale, grayscale=True)
    columns, rows, stride = bitmap.width, bitmap.height, bitmap.stride
    out.write(_HEAD.pack(width, height, columns, rows))
    pixels = memoryview(bitmap.buffer).cast("B")
    for row in range(rows):
        out.write(pixels[row * stride : row * stride + columns])
    bitmap.close()
    page.close()


def write_picture(out: BinaryIO, picture: Picture) -> None:
    """Write a picture as the task does."""
    out.write(_HEAD.pack(*picture[:4]) + picture.pixels)


def read_pictures(source: BinaryIO) -> Iterator[Picture]:
    """The pictures that the task wrote, one after the other."""
    while len(head := source.read(_HEAD.size)) == _HEAD.size:
        width, height, columns, rows = _HEAD.unpack(head)
        pixels = source.read(columns * rows)
        if len(pixels) < columns * rows:
            return
        yield Picture(width, height, columns, rows, pixels)


def warm_up() -> None:
    with TemporaryFile() as source, TemporaryFile() as target:
        source.write(SAMPLE)
        source.flush()
        draw_pages(source.fileno(), target, 1)


TASK = Task(run, warm_up)

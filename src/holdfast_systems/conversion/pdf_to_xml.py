"""Turns one PDF into TEI P5 XML: the task that a sandbox runs, and `python -m ... IN OUT` to try it by hand.

The file is hostile until shown otherwise, so the sandbox may lose this process at any moment; how it went is said by
an exit code. A page that burns more processor time than any honest one ends the process too.
The same file gives the same bytes: nothing of the clock, the machine or the path is in the output.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import signal
import sys
from collections.abc import Callable, Iterator
from enum import IntEnum
from io import TextIOWrapper
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import pypdfium2 as pdfium
import pypdfium2.raw as raw

from holdfast.sandbox.task import Options, Task
from holdfast_systems.conversion.layout import SOFT_HYPHEN, Run, blocks
from holdfast_systems.conversion.tei import METADATA, Page, write_tei

Turn = Callable[[float, float], tuple[float, float]]


class Exit(IntEnum):
    """How the child ended. The numbers are a contract with `embedded`."""

    CONVERTED = 0
    ENCRYPTED = 10
    DAMAGED = 11
    TOO_MANY_PAGES = 12
    EMPTY = 13
    TOO_COMPLEX = 14
    LOCAL_IO = 15


class Refused(Exception):
    """This file is not converted."""

    def __init__(self, kind: Exit) -> None:
        super().__init__(kind.name)
        self.kind = kind


def run(source: int, target: int, options: Options) -> int:
    """Convert one open file into another, and say how it went."""
    try:
        with open(target, "wb", closefd=False) as out:
            convert(source, out, int(options["pages"] or 0), float(options["page_cpu_s"] or 0))
    except Refused as refused:
        return refused.kind
    except (MemoryError, RecursionError):
        return Exit.TOO_COMPLEX
    except OSError as error:
        return Exit.TOO_COMPLEX if error.errno in (errno.EFBIG, errno.ENOMEM) else Exit.LOCAL_IO
    return Exit.CONVERTED


def convert(source: int, out: BinaryIO, pages_max: int, page_cpu_s: float = 0.0) -> None:
    """Write the open file `source` as TEI to `out`, or raise `Refused`."""
    document = _opened(source)
    count = len(document)
    if count > pages_max:
        raise Refused(Exit.TOO_MANY_PAGES)
    pages = []
    for index in range(count):
        # The signal's own effect is to end the process: a handler would never run inside the library.
        signal.setitimer(signal.ITIMER_PROF, page_cpu_s)
        pages.append(_page(document, index))
    signal.setitimer(signal.ITIMER_PROF, 0)
    if not any(page.readable for page in pages):
        raise Refused(Exit.DAMAGED if pages else Exit.EMPTY)
    if not any(page.blocks for page in pages):
        raise Refused(Exit.EMPTY)
    text = TextIOWrapper(out, encoding="utf-8", newline="\n")
    write_tei(text, pages, {key: _metadata(document, key) for key in METADATA})
    text.detach()


def _opened(source: int) -> Any:
    try:
        return pdfium.PdfDocument(_content(source))
    except pdfium.PdfiumError as error:
        kinds = {
            raw.FPDF_ERR_SUCCESS: Exit.EMPTY,  # a sound file without a page
            raw.FPDF_ERR_FILE: Exit.LOCAL_IO,
            raw.FPDF_ERR_PASSWORD: Exit.ENCRYPTED,
            raw.FPDF_ERR_SECURITY: Exit.ENCRYPTED,
        }
        raise Refused(kinds.get(error.err_code, Exit.DAMAGED)) from None


def _content(source: int) -> Any:
    """The file as memory: a child in the sandbox can open no path."""
    size = os.fstat(source).st_size
    if not size:
        raise Refused(Exit.DAMAGED)
    return (ctypes.c_char * size).from_buffer(mmap.mmap(source, size, access=mmap.ACCESS_COPY))


def _metadata(document: Any, key: str) -> str:
    size = raw.FPDF_GetMetaText(document, key.encode() + b"\0", None, 0)
    buffer = ctypes.create_string_buffer(size)
    raw.FPDF_GetMetaText(document, key.encode() + b"\0", buffer, size)
    return buffer.raw[: max(0, size - 2)].decode("utf-16-le", errors="ignore")


def _page(document: Any, index: int) -> Page:
    try:
        page = document[index]
        text = page.get_textpage()
    except pdfium.PdfiumError:
        return Page(index + 1, (), readable=False)
    try:
        return Page(index + 1, tuple(blocks(_words(text, _upright(page)))))
    finally:
        text.close()
        page.close()


def _upright(page: Any) -> Turn:
    """Turns a point of the page into what the reader sees, as pages may be shown rotated."""
    turned = page.get_rotation()
    return {
        90: lambda x, y: (y, -x),
        180: lambda x, y: (-x, -y),
        270: lambda x, y: (-y, x),
    }.get(turned, lambda x, y: (x, y))


_BLANKS = frozenset(map(ord, " \t\n\r\u00a0"))
_LINE_END_HYPHENS = (0x02, 0xFFFE)  # what the library gives for a hyphen at a line's end


def _words(text: Any, upright: Turn) -> Iterator[Run]:
    """The words of a page in the order of its content."""
    edges = [ctypes.c_double() for _ in range(4)]
    left, right, bottom, top = edges
    pointers = [ctypes.byref(edge) for edge in edges]
    letters: list[int] = []
    x0 = x1 = y = size = 0.0
    for index in range(text.count_chars()):
        code = raw.FPDFText_GetUnicode(text, index)
        hyphen = code in _LINE_END_HYPHENS
        if code < 0x20 and not hyphen and code not in _BLANKS:
            continue
        blank = code in _BLANKS or not raw.FPDFText_GetCharBox(text, index, *pointers)
        near, far = sorted((upright(left.value, bottom.value)[0], upright(right.value, top.value)[0]))
        if letters and (blank or near < x0 - 0.5 * size or near - x1 > size):
            yield Run(_text(letters), x0, x1, y, size)
            letters = []
        if blank:
            continue
        if not letters:
            x0, x1, (y, size) = near, far, _baseline(text, index, upright)
        x1 = max(x1, far)
        letters.append(ord(SOFT_HYPHEN) if hyphen else code)
        if hyphen:
            yield Run(_text(letters), x0, x1, y, size)
            letters = []
    if letters:
        yield Run(_text(letters), x0, x1, y, size)


def _text(codes: list[int]) -> str:
    """Characters from code points, with halves of surrogate pairs put together again."""
    units = "".join(map(chr, codes)).encode("utf-16-le", "surrogatepass")
    return units.decode("utf-16-le", errors="ignore")


def _baseline(text: Any, index: int, upright: Turn) -> tuple[float, float]:
    """The height of the baseline, and the size of the font as it is shown."""
    x, y, matrix = ctypes.c_double(), ctypes.c_double(), raw.FS_MATRIX()
    raw.FPDFText_GetCharOrigin(text, index, ctypes.byref(x), ctypes.byref(y))
    scale = 1.0
    if raw.FPDFText_GetMatrix(text, index, ctypes.byref(matrix)):
        scale = abs(matrix.a * matrix.d - matrix.b * matrix.c) ** 0.5
    return upright(x.value, y.value)[1], max(0.1, round(raw.FPDFText_GetFontSize(text, index) * scale, 1))


def warm_up() -> None:
    """Convert one small page of our own, so that everything it takes is loaded."""
    with TemporaryFile() as source, TemporaryFile() as target:
        source.write(_SAMPLE)
        source.flush()
        convert(source.fileno(), target, 1)


_SAMPLE = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Resources<</Font<</F 5 0 R>>>>/Contents 4 0 R>>endobj\n"
    b"4 0 obj<</Length 36>>stream\nBT /F 9 Tf 9 50 Td (Warm & up) Tj ET \nendstream endobj\n"
    b"5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj trailer<</Root 1 0 R>>\n%%EOF\n"
)

TASK = Task(run, warm_up)


def main(source: str, target: str) -> int:
    with open(source, "rb") as given, open(target, "wb") as out:
        return run(given.fileno(), out.fileno(), {"pages": 10_000, "page_cpu_s": 0})


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

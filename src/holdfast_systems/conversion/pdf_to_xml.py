"""Turns one PDF into TEI P5 XML: `python -m holdfast_systems.conversion.pdf_to_xml IN OUT --pages N`.

It runs as a process of its own because the file is hostile until shown otherwise: the parent in `embedded`
may lose it at any moment. It limits itself before it opens the file, says how it went by its exit code (and
as one JSON line on stdout), and imports as little as it can, because every conversion pays for its start.
The same file gives the same bytes: nothing of the clock, the machine or the path is in the output.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import Any

import pypdfium2 as pdfium
import pypdfium2.raw as raw

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


def main(arguments: Sequence[str] | None = None) -> int:
    wanted = _arguments(arguments)
    confine(wanted)
    kind = _converted(wanted.source, wanted.target, wanted.pages)
    print(json.dumps({"error": None if kind is Exit.CONVERTED else kind.name.lower()}))
    return kind


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="pdf_to_xml", description="Turn a PDF into TEI XML.")
    parser.add_argument("source", metavar="IN")
    parser.add_argument("target", metavar="OUT")
    parser.add_argument("--pages", type=int, default=2_000, help="refuse a file with more pages than this")
    parser.add_argument("--memory-bytes", type=int, help="limit of the address space")
    parser.add_argument("--cpu-s", type=int, help="limit of the processor time")
    parser.add_argument("--output-bytes", type=int, help="limit of the output file")
    parser.add_argument("--parent", type=int, help="end when this process, the parent, ends")
    return parser.parse_args(arguments)


def confine(wanted: argparse.Namespace) -> None:
    """Give up, for good, what a hostile file could abuse."""
    if wanted.parent is not None:
        _end_with(wanted.parent)
        os.nice(10)
    _limit(resource.RLIMIT_CORE, 0)
    if wanted.cpu_s is not None:
        # At the soft limit comes SIGXCPU, which says why; at the hard one SIGKILL, which does not.
        _limit(resource.RLIMIT_CPU, wanted.cpu_s, slack=1)
    if wanted.output_bytes is not None:
        _limit(resource.RLIMIT_FSIZE, wanted.output_bytes)
    if wanted.memory_bytes is not None:
        # Some systems have no limit on the address space; the time limit holds there all the same.
        with suppress(OSError, ValueError):
            _limit(resource.RLIMIT_AS, wanted.memory_bytes)


def _limit(kind: int, wanted: int, slack: int = 0) -> None:
    _, present = resource.getrlimit(kind)
    hard = wanted + slack if present == resource.RLIM_INFINITY else min(wanted + slack, present)
    resource.setrlimit(kind, (min(wanted, hard), hard))


def _end_with(parent: int) -> None:
    """Ask the kernel (on Linux) to kill this process when its parent ends, and not to let it gain rights."""
    set_death_signal, set_no_new_privileges = 1, 38
    with suppress(AttributeError, OSError):
        control = ctypes.CDLL(None).prctl
        control(set_death_signal, signal.SIGKILL, 0, 0, 0)
        control(set_no_new_privileges, 1, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(Exit.LOCAL_IO)  # it ended before the request was made


def _converted(source: str, target: str, pages_max: int) -> Exit:
    try:
        convert(source, target, pages_max)
    except Refused as refused:
        return refused.kind
    except (MemoryError, RecursionError):
        return Exit.TOO_COMPLEX
    except OSError as error:
        return Exit.TOO_COMPLEX if error.errno in (errno.EFBIG, errno.ENOMEM) else Exit.LOCAL_IO
    return Exit.CONVERTED


def convert(source: str, target: str, pages_max: int) -> None:
    """Write `source` as TEI to `target`, or raise `Refused`."""
    document = _opened(source)
    count = len(document)
    if count > pages_max:
        raise Refused(Exit.TOO_MANY_PAGES)
    pages = [_page(document, index) for index in range(count)]
    if not any(page.readable for page in pages):
        raise Refused(Exit.DAMAGED if pages else Exit.EMPTY)
    if not any(page.blocks for page in pages):
        raise Refused(Exit.EMPTY)
    with open(target, "w", encoding="utf-8", newline="\n") as out:
        write_tei(out, pages, {key: _metadata(document, key) for key in METADATA})


def _opened(source: str) -> Any:
    try:
        return pdfium.PdfDocument(source)
    except pdfium.PdfiumError as error:
        kinds = {
            raw.FPDF_ERR_SUCCESS: Exit.EMPTY,  # a sound file without a page
            raw.FPDF_ERR_FILE: Exit.LOCAL_IO,
            raw.FPDF_ERR_PASSWORD: Exit.ENCRYPTED,
            raw.FPDF_ERR_SECURITY: Exit.ENCRYPTED,
        }
        raise Refused(kinds.get(error.err_code, Exit.DAMAGED)) from None


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


if __name__ == "__main__":
    sys.exit(main())

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
from collections.abc import Callable
from enum import IntEnum
from io import TextIOWrapper
from itertools import islice
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import pypdfium2 as pdfium
import pypdfium2.raw as raw

from holdfast_systems.conversion.blocks import blocks_of_page
from holdfast_systems.conversion.headings import ReadPage
from holdfast_systems.conversion.inline import link_targets
from holdfast_systems.conversion.pdf_blanks import Blanks
from holdfast_systems.conversion.pdf_page import read_page
from holdfast_systems.conversion.pdf_tags import read_tags
from holdfast_systems.conversion.structure import Entry, mark_structure
from holdfast_systems.conversion.tei import METADATA, write_tei
from holdfast_systems.sandbox.task import Options, Task

_OUTLINE_MAX = 20_000


class Exit(IntEnum):
    """How the child ended. The numbers are a contract with `embedded`."""

    CONVERTED = 0
    ENCRYPTED = 10
    DAMAGED = 11
    TOO_MANY_PAGES = 12
    EMPTY = 13
    TOO_COMPLEX = 14
    LOCAL_IO = 15


class RefusedDocument(Exception):
    """This file is not converted."""

    def __init__(self, kind: Exit) -> None:
        super().__init__(kind.name)
        self.kind = kind


def run(source: int, target: int, options: Options) -> int:
    """Convert one open file into another, and say how it went."""
    return exit_of(convert, source, target, options)


def exit_of(convert: Callable[[int, BinaryIO, int, float], None], source: int, target: int, options: Options) -> Exit:
    """Do the work, closing what it wrote, and say how it went."""
    try:
        with open(target, "wb", closefd=False) as out:
            convert(source, out, int(options["pages"] or 0), float(options["page_cpu_s"] or 0))
    except RefusedDocument as refused:
        return refused.kind
    except (MemoryError, RecursionError):
        return Exit.TOO_COMPLEX
    except OSError as error:
        return Exit.TOO_COMPLEX if error.errno in (errno.EFBIG, errno.ENOMEM) else Exit.LOCAL_IO
    return Exit.CONVERTED


def convert(source: int, out: BinaryIO, pages_max: int, page_cpu_s: float = 0.0) -> None:
    """Write the open file `source` as TEI to `out`, or raise `RefusedDocument`."""
    document = opened(source)
    count = len(document)
    if count > pages_max:
        raise RefusedDocument(Exit.TOO_MANY_PAGES)
    pages, blanks, tagged = [], Blanks(), bool(raw.FPDFCatalog_IsTagged(document))
    for index in range(count):
        # The signal's own effect is to end the process: a handler would never run inside the library.
        signal.setitimer(signal.ITIMER_PROF, page_cpu_s)
        pages.append(_page(document, index, blanks, tagged))
    signal.setitimer(signal.ITIMER_PROF, 0)
    if not any(page.readable for page in pages):
        raise RefusedDocument(Exit.DAMAGED if pages else Exit.EMPTY)
    if not any(page.blocks for page in pages):
        raise RefusedDocument(Exit.EMPTY)
    mark_structure(pages, _outline(document))
    text = TextIOWrapper(out, encoding="utf-8", newline="\n")
    write_tei(text, pages, metadata_of(document), _language(document))
    text.detach()


def opened(source: int) -> Any:
    try:
        return pdfium.PdfDocument(_content(source))
    except pdfium.PdfiumError as error:
        kinds = {
            raw.FPDF_ERR_SUCCESS: Exit.EMPTY,  # a sound file without a page
            raw.FPDF_ERR_FILE: Exit.LOCAL_IO,
            raw.FPDF_ERR_PASSWORD: Exit.ENCRYPTED,
            raw.FPDF_ERR_SECURITY: Exit.ENCRYPTED,
        }
        raise RefusedDocument(kinds.get(error.err_code, Exit.DAMAGED)) from None


def _content(source: int) -> Any:
    """The file as memory: a child in the sandbox can open no path."""
    size = os.fstat(source).st_size
    if not size:
        raise RefusedDocument(Exit.DAMAGED)
    return (ctypes.c_char * size).from_buffer(mmap.mmap(source, size, access=mmap.ACCESS_COPY))


def metadata_of(document: Any) -> dict[str, str]:
    return {key: _metadata(document, key) for key in METADATA}


def _metadata(document: Any, key: str) -> str:
    size = raw.FPDF_GetMetaText(document, key.encode() + b"\0", None, 0)
    buffer = ctypes.create_string_buffer(size)
    raw.FPDF_GetMetaText(document, key.encode() + b"\0", buffer, size)
    return buffer.raw[: max(0, size - 2)].decode("utf-16-le", errors="ignore")


def _page(document: Any, index: int, blanks: Blanks, tagged: bool) -> ReadPage:
    try:
        page = document[index]
        text = page.get_textpage()
    except pdfium.PdfiumError:
        return ReadPage(index + 1, [], readable=False)
    try:
        content = read_page(document, page, text, blanks, marked=tagged)
        blocks = blocks_of_page(content.words, read_tags(page) if tagged else {})
    finally:
        text.close()
        page.close()
    targets = link_targets(content.words, content.links) if content.links else {}
    for block in blocks:
        for line in block.all_lines:
            line.settle(targets)
    return ReadPage(index + 1, blocks, height=content.height, images=content.images)


def _outline(document: Any) -> list[Entry]:
    found = []
    try:
        for bookmark in islice(document.get_toc(max_depth=15), _OUTLINE_MAX):
            target = bookmark.get_dest()
            index = target.get_index() if target else None
            found.append(Entry(bookmark.get_title(), bookmark.level + 1, 0 if index is None else index + 1))
    except pdfium.PdfiumError:
        return found
    return found


def _language(document: Any) -> str:
    units = (ctypes.c_ushort * 64)()
    size = min(128, raw.FPDFCatalog_GetLanguage(document, units, 128))
    return bytes(units)[: max(0, size - 2)].decode("utf-16-le", errors="ignore")


def warm_up() -> None:
    """Convert one small page of our own, so that everything it takes is loaded."""
    with TemporaryFile() as source, TemporaryFile() as target:
        source.write(SAMPLE)
        source.flush()
        convert(source.fileno(), target, 1)


SAMPLE = (
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

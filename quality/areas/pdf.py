"""PDF: generated files with a known order and structure, and how many pages a second of processor time converts."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise

from tests.systems.conversion import pdfs, structured_pdfs

from holdfast_systems.conversion.pdf_to_xml import convert
from quality.row import Row, all_of, at_least

ROWS, PAGES, CHAPTERS = 24, 60, 12


def measure() -> Iterator[Row]:
    for row_by_row in (False, True):
        shares = [_order(count, row_by_row) for count in (2, 3, 4, 5, 6)]
        way = "across" if row_by_row else "one by one"
        yield at_least(f"order of 2 to 6 columns, written {way}, the worst", min(shares), 0.95)
    yield all_of("kinds of structure that are marked", *_structure())
    heads = re.findall(r"<head>\d+ (Tides of part \d+)</head>", _tei(structured_pdfs.paper(PAGES)))
    yield at_least("headings of a paper, bold at the text's size, recall", len(set(heads)) / PAGES, 0.85)
    yield from _headings_without_outline()
    yield at_least("dense pages a second of CPU", _speed(), 150)


def _headings_without_outline() -> Iterator[Row]:
    """A manual with a list of contents, chapters, labels and code in bold: what is marked against what should be."""
    found = re.findall(r"<head>(.*?)</head>", _tei(structured_pdfs.manual(CHAPTERS)))
    numbers = range(1, CHAPTERS + 1)
    wanted = {"Contents", *(f"Chapter {number} Waters of kind {number}" for number in numbers)}
    wanted |= {
        f"{number}.{at} {kind} of kind {number}" for number in numbers for at, kind in ((1, "Springs"), (2, "Neaps"))
    }
    true = sum(head in wanted for head in found)
    yield at_least("headings of a manual without an outline, recall", len(wanted & set(found)) / len(wanted), 0.85)
    yield at_least("headings of a manual without an outline, precision", true / max(1, len(found)), 0.85)


def _order(count: int, row_by_row: bool) -> float:
    """The share of markers that follow the one before."""
    found = [
        int(each) for each in re.findall(r"m(\d\d\d)", _tei(structured_pdfs.columns(count, row_by_row=row_by_row)))
    ]
    return sum(after == before + 1 for before, after in pairwise(found)) / (count * ROWS - 1)


def _structure() -> tuple[int, int]:
    wanted = {
        structured_pdfs.paper: ("<fw ", "<note ", 'rend="superscript"', "<head>"),
        structured_pdfs.lists_and_tables: ('rend="bulleted"', 'rend="numbered"', "<table><head>", "<cell>"),
        structured_pdfs.linked_and_pictured: ('<ref target="https', '<ref target="#page-2"', "<figure><head>"),
        structured_pdfs.outlined: ("<head>",),
        structured_pdfs.tagged: ("<item>", "<head>"),
    }
    found = [part in _tei(make()) for make, parts in wanted.items() for part in parts]
    return sum(found), len(found)


def _tei(pdf: bytes) -> str:
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as target:
        source.write(pdf)
        source.flush()
        convert(source.fileno(), target, 10_000)
        target.seek(0)
        return target.read().decode()


def _speed() -> float:
    lines = [(60.0, 740.0 - 12 * row, 10.0, structured_pdfs.PROSE) for row in range(50)]
    dense = structured_pdfs.document([pdfs.content(lines)] * PAGES)
    _tei(dense)
    began_s = time.process_time()
    _tei(dense)
    return PAGES / (time.process_time() - began_s)

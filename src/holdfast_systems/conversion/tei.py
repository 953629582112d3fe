"""Writes pages of blocks as TEI P5: a header with what the file says of itself, then nested divisions.

    <div> per heading, nested by its size      <head>, <p>      <pb n="7"/> where page 7 begins

Whatever text comes in, well-formed XML comes out: characters that XML cannot hold are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TextIO

from holdfast_systems.conversion.layout import Block

METADATA = ("Title", "Author", "CreationDate")  # the keys of a PDF's information that go into the header


@dataclass(frozen=True, slots=True)
class Page:
    """`readable` is false where the file gives a page that cannot be loaded."""

    number: int
    blocks: tuple[Block, ...]
    readable: bool = True


def write_tei(out: TextIO, pages: Sequence[Page], metadata: dict[str, str]) -> None:
    """Write a whole document. At least one page has a block."""
    heads = _heading_levels([block for page in pages for block in page.blocks])
    out.write('<?xml version="1.0" encoding="UTF-8"?>\n<TEI xmlns="http://www.tei-c.org/ns/1.0">\n')
    out.write(_header(metadata, len(pages), _first_heading(pages, heads)))
    out.write("<text>\n<body>\n")
    depths: list[int] = []  # the levels of the divisions that are open
    for page in pages:
        gap = "" if page.readable else '<gap reason="damaged"/>'
        out.write(f'<pb n="{page.number}"/>{gap}\n')
        for block in page.blocks:
            level = heads.get(block.size) if len(block.text) <= 300 else None
            if level is not None:
                while depths and depths[-1] >= level:
                    depths.pop()
                    out.write("</div>\n")
            if level is not None or not depths:
                depths.append(level or 1)
                out.write("<div>\n")
            name = "p" if level is None else "head"
            out.write(f"<{name}>{_escaped(block.text)}</{name}>\n")
    out.write("</div>\n" * len(depths) + "</body>\n</text>\n</TEI>\n")


def _heading_levels(found: Sequence[Block]) -> dict[float, int]:
    """Sizes clearly above the body's, the largest being level 1."""
    weights: Counter[float] = Counter()
    for block in found:
        weights[block.size] += len(block.text)
    body = max(weights, key=lambda size: (weights[size], -size))
    larger = sorted((size for size in weights if size >= 1.15 * body), reverse=True)
    return {size: min(6, rank) for rank, size in enumerate(larger, start=1)}


def _first_heading(pages: Sequence[Page], heads: dict[float, int]) -> str:
    """The first of the largest headings: the title of a file that does not name it."""
    largest = (block.text for page in pages for block in page.blocks if heads.get(block.size) == 1)
    return next(largest, "")[:300]


def _header(metadata: dict[str, str], pages: int, heading: str) -> str:
    title = _escaped(metadata["Title"]).strip() or _escaped(heading).strip() or "Untitled"
    author = _escaped(metadata["Author"]).strip()
    when = _iso(metadata["CreationDate"])
    by = f"<author>{author}</author>" if author else ""
    date = f'<creation><date when="{when}">{when}</date></creation>'
    created = f"<profileDesc>{date}</profileDesc>\n" if when else ""
    return (
        f"<teiHeader>\n<fileDesc>\n<titleStmt><title>{title}</title>{by}</titleStmt>\n"
        f'<extent><measure unit="page" quantity="{pages}"/></extent>\n'
        "<publicationStmt><p>Converted from PDF.</p></publicationStmt>\n"
        f"<sourceDesc><bibl><title>{title}</title>{by}</bibl></sourceDesc>\n</fileDesc>\n{created}</teiHeader>\n"
    )


_PDF_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d))?(?:(Z)|([+-]\d\d)'?(\d\d)?)?")


def _iso(date: str) -> str:
    """A PDF date as ISO 8601; empty if it is none."""
    match = _PDF_DATE.match(date)
    if not match:
        return ""
    year, month, day, hour, minute, second, utc, offset_hour, offset_minute = match.groups()
    text = f"{year}-{month}-{day}"
    if hour:
        zone = "+00:00" if utc else f"{offset_hour}:{offset_minute or '00'}" if offset_hour else ""
        text += f"T{hour}:{minute}:{second}{zone}"
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return ""
    return text


_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\u007e\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


def _escaped(text: str) -> str:
    return _NOT_IN_XML.sub("", text).translate(_ENTITIES)

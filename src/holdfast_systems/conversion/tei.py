"""Writes a document as TEI P5: a header with what the file says of itself, then nested divisions.

    <div> per heading      <head> <p> <list> <table> <figure> <note> <fw>      <pb n="7"/> where page 7 begins

Whatever text comes in, well-formed XML comes out: characters that XML cannot hold are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import TextIO
from urllib.parse import quote

from holdfast_systems.conversion.blocks import BULLETS, Block, Line
from holdfast_systems.conversion.headings import ReadPage
from holdfast_systems.conversion.inline import join_lines

METADATA = ("Title", "Author", "Keywords", "CreationDate")  # of a PDF's information; they go into the header
_MADE_BY_TOOLS = re.compile(
    r"(microsoft word - )|\.(dvi|docx?|tex|indd|qxd|rtf|pdf|html?)\s*$|^(untitled|about:blank)$", re.IGNORECASE
)
_IN_ADDRESSES = "#%/:?&=@+,;~!$()*'"
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")


def write_tei(out: TextIO, pages: Sequence[ReadPage], metadata: dict[str, str], language: str = "") -> None:
    """Write a whole document. At least one page has a block."""
    out.write('<?xml version="1.0" encoding="UTF-8"?>\n<TEI xmlns="http://www.tei-c.org/ns/1.0">\n')
    language = language if _LANGUAGE.fullmatch(language) else ""
    out.write(_header(metadata, len(pages), _first_heading(pages), language))
    out.write(f'<text xml:lang="{language}">\n<body>\n' if language else "<text>\n<body>\n")
    depths: list[int] = []  # the levels of the divisions that are open
    for page in pages:
        gap = "" if page.readable else '<gap reason="damaged"/>'
        out.write(f'<pb n="{page.number}" xml:id="page-{page.number}"/>{gap}\n')
        for item, group in groupby(page.blocks, key=lambda block: block.kind == "item"):
            if item:
                _open_division(out, depths)
                out.writelines(_list(list(group)))
                continue
            for block in group:
                if block.kind == "head":
                    while depths and depths[-1] >= block.level:
                        depths.pop()
                        out.write("</div>\n")
                    depths.append(block.level)
                    out.write("<div>\n")
                elif block.kind not in ("fw", "note"):
                    _open_division(out, depths)
                out.write(_written(block))
    if not depths:  # a body must hold a division or a paragraph
        out.write("<p/>\n")
    out.write("</div>\n" * len(depths) + "</body>\n</text>\n</TEI>\n")


def _open_division(out: TextIO, depths: list[int]) -> None:
    if not depths:
        depths.append(1)
        out.write("<div>\n")


def _written(block: Block) -> str:
    if block.kind == "table":
        return _table(block)
    content = _inline(block.lines)
    if block.kind == "fw":
        kind = {"top": "header", "bottom": "footer"}.get(block.place, "margin")
        place = f' place="{block.place}"' if block.place in ("top", "bottom", "margin") else ""
        return f'<fw type="{kind}"{place}>{content}</fw>\n'
    if block.kind == "note":
        return f'<note place="bottom" n="{_attribute(block.marker)}">{content}</note>\n'
    if block.kind == "figure":
        return (
            f"<figure><head>{content}</head></figure>\n" if content else "<figure><figDesc>Image</figDesc></figure>\n"
        )
    name = "head" if block.kind == "head" else "p"
    number = f"{_escaped(block.marker)} " if block.marker else ""
    return f"<{name}>{number}{content}</{name}>\n"


def _table(block: Block) -> str:
    head = f"<head>{_inline(block.lines)}</head>" if block.lines else ""
    rows = []
    for index, cells in enumerate(block.cells):
        role = ' role="label"' if index < block.labels else ""
        rows.append(f"<row{role}>{''.join(f'<cell>{_inline(cell)}</cell>' for cell in cells)}</row>\n")
    return f"<table>{head}\n{''.join(rows)}</table>\n"


def _list(items: Sequence[Block]) -> Iterator[str]:
    """Items of several depths as lists within items."""
    open_lists: list[tuple[int, str]] = []  # the depth and kind of each
    for item in items:
        kind = "bulleted" if item.marker in BULLETS else "numbered"
        while len(open_lists) > 1 and open_lists[-1][0] > item.level:
            open_lists.pop()
            yield "</item></list>"
        again = item.marker.strip("().") in ("1", "a", "i")
        if open_lists and open_lists[-1][0] >= item.level and (open_lists[-1][1] != kind or again):
            open_lists.pop()
            yield "</item></list>\n"
        if open_lists and open_lists[-1][0] >= item.level:
            yield "</item>\n"
        else:
            open_lists.append((item.level, kind))
            yield f'<list rend="{kind}">\n'
        marker = "" if item.marker in BULLETS else _attribute(item.marker.strip("().: "))
        number = f' n="{marker}"' if marker else ""
        yield f"<item{number}>{_inline(item.lines)}"
    yield "</item></list>" * len(open_lists) + "\n"


def _inline(lines: Iterable[Line]) -> str:
    parts = []
    for span in join_lines(line.spans for line in lines):
        text = _escaped(span.text)
        if span.raised:
            text = f'<hi rend="superscript">{text}</hi>'
        if span.target:
            target = quote(span.target, safe=_IN_ADDRESSES, errors="replace")  # half a character is none
            text = f'<ref target="{_attribute(target)}">{text}</ref>'
        parts.append(text)
    return "".join(parts)


def _attribute(text: str) -> str:
    return _escaped(text).replace("\n", " ").replace("\t", " ")


def _first_heading(pages: Sequence[ReadPage]) -> str:
    """The largest heading of the first pages: the title of a file that does not name it."""
    heads = [block for page in pages[:3] for block in page.blocks if block.kind == "head"]
    return max(heads, key=lambda block: block.size).text[:300] if heads else ""


def _header(metadata: dict[str, str], pages: int, heading: str, language: str) -> str:
    given = "" if _MADE_BY_TOOLS.search(metadata["Title"]) else _escaped(metadata["Title"]).strip()
    title = given or _escaped(heading).strip() or "Untitled"
    author = _escaped(metadata["Author"]).strip()
    when = _iso(metadata["CreationDate"])
    by = f"<author>{author}</author>" if author else ""
    date = f'<creation><date when="{when}">{when}</date></creation>'
    used = f'<langUsage><language ident="{language}">{language}</language></langUsage>' if language else ""
    words = [_escaped(word).strip() for word in re.split("[,;]", metadata.get("Keywords", ""))]
    terms = "".join(f"<term>{word}</term>" for word in words if word)
    keywords = f"<textClass><keywords>{terms}</keywords></textClass>" if terms else ""
    profile = (date if when else "") + used + keywords
    created = f"<profileDesc>{profile}</profileDesc>\n" if profile else ""
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

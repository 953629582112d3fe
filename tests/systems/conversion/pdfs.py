"""PDF files made in code: good ones to convert, hostile ones to survive.

Each function gives the bytes of one file. A hostile file is small to send, and costly, broken or lying.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence

Placed = tuple[float, float, float, str]  # x, y, font size, text

_CATALOG, _PAGES, _FONT, _INFO = 1, 2, 3, 4
_FIRST_FREE = 5

TITLE, AUTHOR = "Tides & Moons", "A. Lunar"
CREATED, CREATED_ISO = "D:20240229113000+01'00'", "2024-02-29T11:30:00+01:00"


def good(pages: int = 2) -> bytes:
    """Headings, paragraphs and metadata on `pages` pages."""
    return document([_prose(number) for number in range(1, pages + 1)])


def two_column() -> bytes:
    """A full-width heading, then two columns, written line by line across the gutter."""
    placed: list[Placed] = [(60, 740, 20, "Two Columns Of Markers")]
    for row in range(12):
        y = 700.0 - 14 * row
        placed.append((60, y, 10, f"marker {row + 1:02d} of the left hand column is here"))
        placed.append((320, y, 10, f"marker {row + 13:02d} of the right hand column is here"))
    placed.append((60, 500, 10, "A closing line that runs over the whole width of the page, over both."))
    return document([content(placed)])


def hyphenated() -> bytes:
    lines: list[Placed] = [(60, 700, 12, "The word experi-"), (60, 686, 12, "mental goes over a line end.")]
    return document([content(lines)])


def control_characters() -> bytes:
    """Text and a title that hold characters which no XML may hold, and markup that must be escaped."""
    stream = b"BT /F1 12 Tf 60 700 Td (be\\001fore \\033 \\014after <b> & ]]>) Tj ET"
    return document([stream], title="a\x01b\x0bc <&> \ud800")


def encrypted() -> bytes:
    """Asks for a password that is not the empty one."""
    secured = b"<</Filter/Standard/V 1/R 2/P -4/O<" + b"5a" * 32 + b">/U<" + b"a5" * 32 + b">>>"
    return document([_prose(1)], encrypt=secured)


def truncated() -> bytes:
    whole = good()
    return whole[: len(whole) // 3]


def bit_flipped() -> bytes:
    """Every 7th byte after the header has its bits turned."""
    whole = bytearray(good())
    for at in range(16, len(whole), 7):
        whole[at] ^= 0xFF
    return bytes(whole)


def empty() -> bytes:
    return b""


def header_only() -> bytes:
    return b"%PDF-1.7\n"


def no_pages() -> bytes:
    return document([])


def no_text() -> bytes:
    """One page with a drawing and no words, as a scan has."""
    return document([b"0 0 200 200 re f"])


def html() -> bytes:
    return b"<!doctype html><html><body><p>Not a PDF at all.</p></body></html>"


def many_pages(count: int = 20_000) -> bytes:
    """`count` pages that all show the same stream."""
    content_at = _FIRST_FREE
    first_page = content_at + 1
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>/Contents %d 0 R>>"
    kids = b" ".join(b"%d 0 R" % (first_page + index) for index in range(count))
    objects = [*_frame(b"/Kids[%s]/Count %d" % (kids, count)), _stream(_prose(1)), *[page % content_at] * count]
    return assemble(objects)


def flate_bomb(megabytes: int = 1_024) -> bytes:
    """A few kilobytes that inflate, twice over, to `megabytes` of text operators."""
    row = (b"(" + b"A" * 1_000 + b")Tj\n") * 1_024
    squeeze = zlib.compressobj(9)
    head = squeeze.compress(b"BT /F1 9 Tf ") + squeeze.flush(zlib.Z_FULL_FLUSH)
    block = squeeze.compress(row) + squeeze.flush(zlib.Z_FULL_FLUSH)  # stands alone, so it can be repeated
    once = head + block * megabytes + squeeze.flush()
    return document([], raw_pages=[_stream(zlib.compress(once, 9), b"/Filter[/FlateDecode/FlateDecode]")])


def xobject_bomb(depth: int = 12, breadth: int = 10) -> bytes:
    """Forms that draw forms that draw forms: breadth ** depth pieces of text."""
    first = _FIRST_FREE + 2
    forms = []
    for level in range(depth):
        inner = b"/X Do " * breadth if level < depth - 1 else b"BT /F1 9 Tf (boom) Tj ET"
        resources = b"/Resources<</Font<</F1 3 0 R>>/XObject<</X %d 0 R>>>>" % (first + level + 1)
        forms.append(_stream(inner, b"/Type/XObject/Subtype/Form/BBox[0 0 612 792]" + resources))
    return document([b"/X Do"], extra=forms, resources=b"/XObject<</X %d 0 R>>" % first)


def lying_count() -> bytes:
    """One page, and a page tree that claims two thousand million."""
    return good(1).replace(b"/Count 1>>", b"/Count 2000000000>>")


def deep_nesting(depth: int = 200_000) -> bytes:
    """An array in an array in an array, in the page's resources and in its content."""
    nest = b"[" * depth + b"]" * depth
    return document([nest + b" TJ"], resources=b"/Deep " + nest)


def deep_page_tree(depth: int = 20_000) -> bytes:
    """A page tree as a chain of single children."""
    chain = [b"<</Type/Pages/Kids[%d 0 R]/Count 1>>" % (_FIRST_FREE + 1 + level) for level in range(depth)]
    leaf = b"<</Type/Page/MediaBox[0 0 612 792]/Resources<<>>>>"
    return assemble([*_frame(b"/Kids[%d 0 R]/Count 1" % _FIRST_FREE), *chain, leaf])


def content(placed: Iterable[Placed]) -> bytes:
    """A content stream that shows each text at its place."""
    parts = [b"BT /F1 %g Tf 1 0 0 1 %g %g Tm (%s) Tj ET" % (size, x, y, _escaped(text)) for x, y, size, text in placed]
    return b"\n".join(parts)


def document(
    pages: Sequence[bytes],
    *,
    title: str = TITLE,
    extra: Sequence[bytes] = (),
    resources: bytes = b"",
    encrypt: bytes | None = None,
    raw_pages: Sequence[bytes] = (),
) -> bytes:
    """A PDF with one page per content stream; `extra` objects follow the pages' own."""
    streams = [*map(_stream, pages), *raw_pages]
    kids = b" ".join(b"%d 0 R" % (_FIRST_FREE + 2 * index) for index in range(len(streams)))
    objects = _frame(b"/Kids[%s]/Count %d" % (kids, len(streams)), title)
    for index, stream in enumerate(streams):
        shown = b"/Resources<</Font<</F1 3 0 R>>%s>>/Contents %d 0 R" % (resources, _FIRST_FREE + 2 * index + 1)
        objects += [b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]" + shown + b">>", stream]
    return assemble([*objects, *extra], encrypt)


def assemble(objects: Sequence[bytes], encrypt: bytes | None = None) -> bytes:
    """Number the objects, and add the header, the cross-reference table and the trailer."""
    numbered = [*objects, encrypt] if encrypt else list(objects)
    out = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    offsets = []
    for number, body in enumerate(numbered, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table_at = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(numbered) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    secured = b"/Encrypt %d 0 R/ID[<00><00>]" % len(numbered) if encrypt else b""
    out += b"trailer\n<</Size %d/Root 1 0 R/Info 4 0 R%s>>\n" % (len(numbered) + 1, secured)
    out += b"startxref\n%d\n%%%%EOF\n" % table_at
    return bytes(out)


def _frame(tree: bytes, title: str = TITLE) -> list[bytes]:
    """Catalog, page tree, font and document information: objects 1 to 4."""
    title_hex = b"\xfe\xff".hex() + title.encode("utf-16-be", "surrogatepass").hex()
    return [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages%s>>" % tree,
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        b"<</Title<%s>/Author(%s)/CreationDate(%s)>>" % (title_hex.encode(), AUTHOR.encode(), CREATED.encode()),
    ]


def _prose(number: int) -> bytes:
    lines = [
        "The sea rises and falls twice in a day and the moon is the",
        "cause of it. This is the first paragraph.",
        "",
        "A second paragraph begins after a wider gap and runs over",
        f"two lines on page {number}.",
    ]
    placed: list[Placed] = [(60, 740, 18, f"Chapter {number}")]
    placed += [(60, 700 - 14 * row, 12, text) for row, text in enumerate(lines) if text]
    return content(placed)


def _stream(data: bytes, entries: bytes = b"") -> bytes:
    return b"<</Length %d%s>>\nstream\n%s\nendstream" % (len(data), entries, data)


def _escaped(text: str) -> bytes:
    return text.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")

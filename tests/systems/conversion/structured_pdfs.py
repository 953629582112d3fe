"""PDF files with a structure to find: each function gives the bytes of one, written by hand as tools write them."""

from __future__ import annotations

import io
from collections.abc import Sequence

from tests.systems.conversion import pdfs

Placed = tuple[float, float, float, str]
Element = tuple[str, "int | Sequence[Element]"]
"""An element of a tagged file: its role, and the number of its marked content or the elements within it."""
PROSE = "the sea rises and falls twice in a day and the moon is the cause of it all"


def text(placed: Sequence[Placed], font: str = "F1") -> bytes:
    """A content stream that shows each text at its place in one font: F1 is plain, F2 is bold."""
    return pdfs.content(placed).replace(b"/F1 ", f"/{font} ".encode())


def paper(pages: int = 4) -> bytes:
    """Bold headings at the size of the text, a running head with the page's number, a footnote on each page."""
    streams = []
    for number in range(1, pages + 1):
        body: list[Placed] = [(60, 700 - 12 * row, 10, f"Line {row} of page {number}: {PROSE}") for row in range(1, 21)]
        heads: list[Placed] = [(60, 712, 10, f"{number} Tides of part {number}")]
        running: list[Placed] = [(60, 770, 9, "A Paper on Tides"), (500, 770, 9, str(number + 10))]
        note: list[Placed] = [(60, 103, 5, "1"), (64, 100, 8, f"See the almanac of year {number}.")]
        mark: list[Placed] = [(60, 448, 10, "The moon"), (104, 452, 6, "1"), (110, 448, 10, f"turns {PROSE}")]
        streams.append(text(running) + text(heads, "F2") + text(body) + text(mark) + text(note))
    return document(streams)


def manual(chapters: int = 5) -> bytes:
    """No outline: a list of contents, chapters with their number on a line of its own, labels that return, code."""
    listed: list[Placed] = [
        (60, 680 - 40 * number, 10, f"{number} Waters of kind {number} {number + 1}")
        for number in range(1, chapters + 1)
    ]
    streams = [text([(60, 720, 20, "Contents"), *listed], "F2")]
    for number in range(1, chapters + 1):
        bold: list[Placed] = [
            (60, 740, 18, f"Chapter {number}"),
            (60, 712, 20, f"Waters of kind {number}"),
            (60, 660, 10, "Synopsis"),
            (60, 560, 10, "for all i in tides do"),
            (60, 500, 12, f"{number}.1 Springs of kind {number}"),
            (60, 486, 12, f"{number}.2 Neaps of kind {number}"),
        ]
        body: list[Placed] = [
            (60, top - 12 * row, 10, f"Line {row} of {number}: {PROSE}") for top in (640, 540, 460) for row in range(5)
        ]
        streams.append(text(bold, "F2") + text(body))
    return document(streams)


def columns(count: int, *, row_by_row: bool) -> bytes:
    """`count` columns of numbered markers, written column by column or across all of them."""
    wide, rows = 480 / count, 24
    cells = [(column, row) for column in range(count) for row in range(rows)]
    if row_by_row:
        cells.sort(key=lambda cell: cell[1])
    placed: list[Placed] = [(60, 740, 20, "A Heading Over All Of The Columns")]
    for column, row in cells:
        words = f"m{column * rows + row + 1:03d} " + "tide moon " * int(wide / 55)
        placed.append((60 + column * wide, 700 - 14 * row, 8, words))
    return document([text(placed)])


def lists_and_tables() -> bytes:
    placed: list[Placed] = [(60, 740 - 14 * row, 11, f"{PROSE.capitalize()}.") for row in range(4)]
    for row, item in enumerate(("low water in the morning", "high water at noon", "low water at night")):
        placed += [(70, 670 - 14 * row, 11, "•"), (84, 670 - 14 * row, 11, item)]
    placed.append((60, 612, 11, f"{PROSE.capitalize()}."))
    for row, item in enumerate(("first the ebb", "then the flood", "and again the ebb")):
        placed.append((70, 590 - 14 * row, 11, f"{row + 1}. {item}"))
    placed.append((60, 530, 11, "Table 1: Heights of water"))
    for row, cells in enumerate((("Port", "Low", "High"), ("Brest", "1.2", "6.9"), ("Hue", "0.3", "0.9"))):
        placed += [(60 + 150 * at, 510 - 14 * row, 11, cell) for at, cell in enumerate(cells)]
    return document([text(placed)])


def linked_and_pictured() -> bytes:
    """A link out, a link to page 2, and an image with a caption."""
    stream = text([(60, 700, 11, f"Read more here {PROSE}."), (60, 640, 11, "Go to the end now.")])
    shown = b" q 200 0 0 100 60 480 cm /Im Do Q " + text([(60, 465, 9, "Figure 1: The harbour at low water")])
    out = b"<</Type/Annot/Subtype/Link/Rect[60 697 %d 712]/A<</S/URI/URI(https://example.org/a b?c=1&d=2)>>>>" % 140
    within = b"<</Type/Annot/Subtype/Link/Rect[60 637 160 652]/Dest[11 0 R/Fit]>>"
    return document([stream + shown, text([(60, 700, 11, "The end.")])], annotations=out + within)


def outlined() -> bytes:
    """Headings that look like the text, and an outline that names them."""
    streams = []
    for number in (1, 2, 3):
        lines: list[Placed] = [(60, 700, 10, f"Of the moon in house {number}")]
        lines += [(60, 680 - 12 * row, 10, f"{PROSE.capitalize()}.") for row in range(9)]
        streams.append(text(lines))
    return document(streams, outline=[f"{number}. Of the moon in house {number}" for number in (1, 2, 3)])


def hyphenated() -> bytes:
    """A hyphen of typesetters at a line's end, and a compound that has its own."""
    fonts = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding<</Differences[1/hyphen 2/uni2010]>>>>"
    shown = text([(60, 686, 12, "dents of a state-of-the-"), (60, 672, 12, "art school of the sea.")])
    first = b"BT /F3 12 Tf 1 0 0 1 60 700 Tm (The stu\\002) Tj ET "
    return document([first + shown], more_fonts=fonts)


def groff_set(lines: int = 24) -> bytes:
    """Some blanks are steps between letters; two letters are set apart by more than that, and belong together."""
    rows = [b"2.5 Tc (a)Tj 0 Tc 7.5 0 Td (login shell of a kind, number %d)Tj -7.5 -14 Td " % at for at in range(lines)]
    rows.append(b"3 Tc (apart)Tj 0 Tc 0 -14 Td ")
    return document([b"BT /F1 10 Tf 60 740 Td " + b"".join(rows) + b"ET"])


def line_numbered(lines: int = 20) -> bytes:
    """A manuscript for review: each line has its number in the margin, also that of a heading."""
    numbers = [(40.0, 720.0 - 14 * at, 6.0, f"{31 + at}") for at in range(lines)]
    prose = [(72.0, 720.0 - 14 * at, 10.0, PROSE) for at in range(lines) if at != 10]
    head = text([(72.0, 580.0, 10.0, "2. METHODS OF MEASURE")], "F2")
    return document([text(numbers) + text(prose[:10]) + head + text(prose[10:])])


def tagged() -> bytes:
    """A heading, a paragraph, a list in a list without bullets to see and a table without rules, told by tags alone."""
    shown = [
        "Of tides",
        "The sea rises.",
        "low water",
        "-",
        "in the morning",
        "high water",
        "Port",
        "Height",
        "Brest",
        "6.9",
    ]
    marked = [
        b"/P <</MCID %d>> BDC %s EMC " % (mark, text([(60, 700 - 20 * mark, 11, words)]))
        for mark, words in enumerate(shown)
    ]
    within: Element = ("L", [("LI", [("Lbl", 3), ("LBody", 4)])])
    listed: Element = ("L", [("LI", 2), within, ("LI", [("LBody", [("P", 5)])])])
    table: Element = ("Table", [("TR", [("TH", 6), ("TH", [("P", 7)])]), ("TR", [("TD", 8), ("TD", 9)])])
    return document([b"".join(marked)], tags=[("H2", 0), ("P", 1), listed, table])


def document(
    streams: Sequence[bytes],
    *,
    annotations: bytes = b"",
    outline: Sequence[str] = (),
    more_fonts: bytes = b"null",
    tags: Sequence[Element] = (),
) -> bytes:
    """Objects 1 to 6 are the frame: catalog, pages, plain font, information, bold font, another font, image at 7."""
    first, count = 8, len(streams)
    kids = b" ".join(b"%d 0 R" % (first + 2 * index + 1) for index in range(count))
    after = first + 2 * count
    catalog = b"/Lang(en-GB)"
    extra: list[bytes] = []
    if outline:
        catalog += b"/Outlines %d 0 R" % after
        extra = _outline(outline, after, first)
    if tags:
        catalog += b"/MarkInfo<</Marked true>>/StructTreeRoot %d 0 R" % after
        extra = _tags(tags, after, first + 1)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R%s>>" % catalog,
        b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, count),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        b"<</Title(Tides.dvi)/Keywords(tides, moon)>>",
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica-Bold/Encoding/WinAnsiEncoding>>",
        more_fonts,
        b"<</Type/XObject/Subtype/Image/Width 1/Height 1/ColorSpace/DeviceGray/BitsPerComponent 8/Length 1>>"
        b"\nstream\n\x80\nendstream",
    ]
    for index, stream in enumerate(streams):
        fonts = b"/Font<</F1 3 0 R/F2 5 0 R/F3 6 0 R>>/XObject<</Im 7 0 R>>"
        more = b"/Annots[%s]" % annotations if annotations and index == 0 else b""
        page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/StructParents %d/Resources<<%s>>/Contents %d 0 R%s>>"
        objects += [b"<</Length %d>>\nstream\n%s\nendstream" % (len(stream), stream)]
        objects += [page % (index, fonts, first + 2 * index, more)]
    return pdfs.assemble([*objects, *extra])


def _outline(titles: Sequence[str], at: int, first: int) -> list[bytes]:
    found = [b"<</Type/Outlines/First %d 0 R/Last %d 0 R/Count %d>>" % (at + 1, at + len(titles), len(titles))]
    for index, title in enumerate(titles):
        following = b"/Next %d 0 R" % (at + index + 2) if index + 1 < len(titles) else b""
        page = first + 2 * index + 1
        found.append(b"<</Title(%s)/Parent %d 0 R/Dest[%d 0 R/Fit]%s>>" % (title.encode(), at, page, following))
    return found


def _tags(tree: Sequence[Element], at: int, page: int) -> list[bytes]:
    """A tree root, a document with its elements, and the table back from marks to elements."""
    elements: list[bytes] = []
    owners: dict[int, int] = {}

    def add(role: str, inside: int | Sequence[Element], parent: int) -> int:
        number = at + 2 + len(elements)
        elements.append(b"")
        if isinstance(inside, int):
            owners[inside], kids = number, b"%d" % inside
        else:
            kids = b"[%s]" % b" ".join(b"%d 0 R" % add(*each, number) for each in inside)
        elements[number - at - 2] = b"<</Type/StructElem/S/%s/P %d 0 R/Pg %d 0 R/K %s>>" % (
            role.encode(),
            parent,
            page,
            kids,
        )
        return number

    whole = add("Document", tree, at)
    root = b"<</Type/StructTreeRoot/K %d 0 R/ParentTree %d 0 R>>" % (whole, at + 1)
    return [root, b"<</Nums[0[%s]]>>" % b" ".join(b"%d 0 R" % owners[mark] for mark in sorted(owners)), *elements]


def scanned(pdf: bytes, dpi: int = 200) -> bytes:
    """The same pages as pictures, without a word of text."""
    import pypdfium2 as pdfium

    given, made = pdfium.PdfDocument(pdf), pdfium.PdfDocument.new()
    for page in given:
        width, height = page.get_size()
        picture = pdfium.PdfImage.new(made)
        picture.set_bitmap(page.render(scale=dpi / 72))
        picture.set_matrix(pdfium.PdfMatrix().scale(width, height))
        sheet = made.new_page(width, height)
        sheet.insert_obj(picture)
        sheet.gen_content()
    out = io.BytesIO()
    made.save(out)
    return out.getvalue()

"""What a person sees on a page is told in TEI: order, headings, lists, tables, notes, links, figures, running lines."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree.ElementTree import Element

import pytest
from tests.systems.conversion import structured_pdfs as made
from tests.systems.conversion.test_pdf_to_xml import TEI, tei_of, texts

from holdfast.errors import CallError
from holdfast_systems.conversion import pdf_tags
from holdfast_systems.conversion.blocks import blocks_of_page
from holdfast_systems.conversion.embedded import EmbeddedGateway
from holdfast_systems.conversion.inline import Span, line_end, spans_of
from holdfast_systems.conversion.layout import Word, line_numbers_of
from holdfast_systems.conversion.ocr import is_installed
from holdfast_systems.conversion.pdf_page import _as_written
from holdfast_systems.conversion.pdf_pictures import draw_pages, read_pictures

# What TEI P5 allows inside each element that is written into a body, from its own content models.
ALLOWED = {
    "body": {"div", "pb", "fw", "note", "gap", "p"},
    "div": {"div", "head", "p", "list", "table", "figure", "note", "fw", "pb", "gap"},
    "head": {"hi", "ref"},
    "p": {"hi", "ref"},
    "fw": {"hi", "ref"},
    "note": {"hi", "ref"},
    "list": {"item"},
    "item": {"list", "hi", "ref"},
    "table": {"head", "row"},
    "row": {"cell"},
    "cell": {"hi", "ref"},
    "figure": {"head", "figDesc"},
    "hi": set(),
    "ref": {"hi"},
    "pb": set(),
    "gap": set(),
    "figDesc": set(),
}
EVERY = {
    "paper": made.paper,
    "manual": made.manual,
    "columns": lambda: made.columns(3, row_by_row=True),
    "lists and tables": made.lists_and_tables,
    "links and pictures": made.linked_and_pictured,
    "outline": made.outlined,
    "hyphens": made.hyphenated,
    "tags": made.tagged,
}


def name(element: Element) -> str:
    return element.tag.removeprefix(TEI)


@pytest.mark.spec("C9")
@pytest.mark.parametrize("kind", EVERY)
def test_what_is_written_keeps_the_rules_of_tei(tmp_path: Path, kind: str) -> None:
    root = tei_of(tmp_path, EVERY[kind]())
    body = root.find(f"{TEI}text/{TEI}body")
    assert body is not None
    for element in body.iter():
        children = [name(child) for child in element]
        assert set(children) <= ALLOWED[name(element)], f"{name(element)}: {children}"
        if name(element) == "div":
            blocks = [child for child in children if child not in ("pb", "fw", "note", "gap")]
            assert "head" not in blocks[1:], "a head is the first of its division"
            first_division = blocks.index("div") if "div" in blocks else len(blocks)
            assert set(blocks[first_division:]) <= {"div"}, "nothing follows a division within a division"
        if name(element) in ("list", "table", "row"):
            assert children
    marks = [found.get("{http://www.w3.org/XML/1998/namespace}id") for found in root.iter(f"{TEI}pb")]
    assert len(set(marks)) == len(marks)


@pytest.mark.spec("C9")
@pytest.mark.parametrize("row_by_row", [False, True])
@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_any_number_of_columns_is_read_one_after_the_other(tmp_path: Path, count: int, row_by_row: bool) -> None:
    root = tei_of(tmp_path, made.columns(count, row_by_row=row_by_row))
    found = re.findall(r"m(\d\d\d)", " ".join(texts(root, "p")))
    assert found == [f"{number:03d}" for number in range(1, 24 * count + 1)]
    assert texts(root, "head") == ["A Heading Over All Of The Columns"] and not list(root.iter(f"{TEI}table"))


@pytest.mark.spec("C9")
def test_a_paper_has_bold_headings_running_lines_notes_and_raised_numbers(tmp_path: Path) -> None:
    root = tei_of(tmp_path, made.paper())
    assert texts(root, "head") == [f"{number} Tides of part {number}" for number in (1, 2, 3, 4)]
    running = [found.get("type") for found in root.iter(f"{TEI}fw")]
    assert running == ["header"] * len(running) and " ".join(texts(root, "fw")).split()[-1] == "14"
    notes = list(root.iter(f"{TEI}note"))
    assert [note.get("n") for note in notes] == ["1"] * 4
    assert texts(root, "note")[1] == "See the almanac of year 2."
    raised = [found.text for found in root.iter(f"{TEI}hi") if found.get("rend") == "superscript"]
    assert raised == ["1"] * 4
    assert any("The moon1 turns the sea" in paragraph for paragraph in texts(root, "p"))
    assert not any("A Paper on Tides" in paragraph for paragraph in texts(root, "p"))


@pytest.mark.spec("C9")
def test_a_manual_without_an_outline_has_its_headings_and_no_others(tmp_path: Path) -> None:
    """Not the lines of its list of contents, nor the label of every page, nor a line of code in bold."""
    heads = texts(tei_of(tmp_path, made.manual()), "head")
    wanted = ["Contents"]
    for number in range(1, 6):
        wanted += [f"Chapter {number} Waters of kind {number}"]
        wanted += [f"{number}.1 Springs of kind {number}", f"{number}.2 Neaps of kind {number}"]
    assert heads == wanted


@pytest.mark.spec("C9")
def test_lists_and_tables_are_lists_and_tables(tmp_path: Path) -> None:
    root = tei_of(tmp_path, made.lists_and_tables())
    kinds = [found.get("rend") for found in root.iter(f"{TEI}list")]
    assert kinds == ["bulleted", "numbered"]
    items = ["low water in the morning", "high water at noon", "low water at night"]
    assert texts(root, "item") == [*items, "first the ebb", "then the flood", "and again the ebb"]
    assert [found.get("n") for found in root.iter(f"{TEI}item")] == [None, None, None, "1", "2", "3"]
    (table,) = root.iter(f"{TEI}table")
    assert texts(table, "head") == ["Table 1: Heights of water"]
    rows = [texts(row, "cell") for row in table.iter(f"{TEI}row")]
    assert rows == [["Port", "Low", "High"], ["Brest", "1.2", "6.9"], ["Hue", "0.3", "0.9"]]


@pytest.mark.spec("C9")
def test_links_and_figures_are_marked(tmp_path: Path) -> None:
    root = tei_of(tmp_path, made.linked_and_pictured())
    links = {"".join(found.itertext()): found.get("target") for found in root.iter(f"{TEI}ref")}
    assert links == {"Read more here": "https://example.org/a%20b?c=1&d=2", "Go to the end now.": "#page-2"}
    (figure,) = root.iter(f"{TEI}figure")
    assert texts(figure, "head") == ["Figure 1: The harbour at low water"]


@pytest.mark.spec("C9")
def test_the_outline_names_headings_that_look_like_the_text(tmp_path: Path) -> None:
    root = tei_of(tmp_path, made.outlined())
    assert texts(root, "head") == [f"Of the moon in house {number}" for number in (1, 2, 3)]


@pytest.mark.spec("C9")
def test_tags_tell_what_cannot_be_seen(tmp_path: Path) -> None:
    root = tei_of(tmp_path, made.tagged())
    assert texts(root, "head") == ["Of tides"]
    whole, within = root.iter(f"{TEI}list")
    assert [item.text for item in whole.iter(f"{TEI}item")] == ["low water", "in the morning", "high water"]
    assert texts(within, "item") == ["in the morning"], "a list within a list"
    (table,) = root.iter(f"{TEI}table")
    assert [(row.get("role"), texts(row, "cell")) for row in table.iter(f"{TEI}row")] == [
        ("label", ["Port", "Height"]),
        (None, ["Brest", "6.9"]),
    ]


@pytest.mark.spec("C9")
def test_the_header_tells_language_and_keywords_and_no_name_of_a_tool(tmp_path: Path) -> None:
    root = tei_of(tmp_path, made.paper())
    assert texts(root, "title")[0] == "1 Tides of part 1" and texts(root, "term") == ["tides", "moon"]
    (language,) = root.iter(f"{TEI}language")
    assert language.get("ident") == "en-GB"


@pytest.mark.spec("C9")
@pytest.mark.parametrize(
    ("text", "following", "joined"),
    [
        ("the stu\u2010", "dents", "the students"),
        ("the stu-", "dents", "the students"),
        ("the stu\u00ad", "dents", "the students"),
        ("state-of-the-", "art", "state-of-the-art"),
        ("Anglo-", "Saxon", "Anglo-Saxon"),
        ("pages 3-", "4", "pages 3- 4"),
        ("a dash -", "and more", "a dash - and more"),
        ("a line", "and more", "a line and more"),
    ],
)
def test_a_word_broken_by_any_hyphen_is_whole_again(text: str, following: str, joined: str) -> None:
    assert "".join((*line_end(text, following), following)) == joined


@pytest.mark.spec("C9")
@pytest.mark.parametrize(("x0", "before"), [(101.0, "moon"), (110.0, "moon ")])
def test_what_is_raised_close_to_a_word_has_no_blank_before_it(x0: float, before: str) -> None:
    line = [Word("moon", 60.0, 100.0, 700.0, 10.0), Word("1", x0, x0 + 3, 704.0, 6.0)]
    assert spans_of(line, 700.0, 10.0, {}) == [Span(before), Span("1", raised=True)]


@pytest.mark.spec("C9")
def test_a_hyphen_of_typesetters_is_joined_in_a_file(tmp_path: Path) -> None:
    (paragraph,) = texts(tei_of(tmp_path, made.hyphenated()), "p")[-1:]
    assert paragraph.endswith("dents of a state-of-the-art school of the sea.")


@pytest.mark.spec("C9")
def test_the_numbers_of_lines_stand_in_the_margin(tmp_path: Path) -> None:
    root = tei_of(tmp_path, made.line_numbered())
    assert texts(root, "head")[-1:] == ["2. METHODS OF MEASURE"]
    assert texts(root, "fw") == [" ".join(str(number) for number in range(31, 51))]


def test_a_few_small_numbers_that_go_on_are_those_of_lines() -> None:
    def page(start: int, size: float) -> list[Word]:
        return [
            word
            for row in range(5)
            for word in (
                Word(str(start + row), 20, 30, 700 - 12 * row, size),
                Word("tide", 60, 90, 700 - 12 * row, 10),
            )
        ]

    assert [word.text for word in line_numbers_of(page(313, 5))] == ["313", "314", "315", "316", "317"]
    assert line_numbers_of(page(1, 5)) == line_numbers_of(page(2001, 10)) == [], "a list, a table of years"


@pytest.mark.spec("C9")
def test_a_blank_that_is_a_step_between_letters_parts_words(tmp_path: Path) -> None:
    found = " ".join(texts(tei_of(tmp_path, made.groff_set()), "p"))
    assert found.count("a login shell of a kind") == 24 and found.endswith(" apart")


@pytest.mark.spec("C9")
def test_a_line_from_the_right_is_read_from_the_right() -> None:
    """The words of the file run as they are seen, from the left; a number among them keeps its place."""
    shown = ["מילים", "12", "עם", "משפט", "זה"]
    words = [Word(text, 60.0 + 60 * at, 100.0 + 60 * at, 700.0, 10.0) for at, text in enumerate(shown)]
    (block,) = blocks_of_page(words, {})
    assert block.text == "זה משפט עם 12 מילים"


@pytest.mark.spec("C9")
def test_a_stamp_on_its_side_is_no_heading(tmp_path: Path) -> None:
    stamp = b" BT /F1 20 Tf 0 1 -1 0 30 200 Tm (stamped 2024) Tj ET"
    root = tei_of(
        tmp_path, made.document([made.text([(60, 700 - 14 * row, 10, made.PROSE) for row in range(9)]) + stamp])
    )
    assert texts(root, "fw") == ["stamped 2024"] and texts(root, "head") == []


@pytest.mark.spec("C9")
def test_a_scan_is_drawn_for_its_reader(tmp_path: Path) -> None:
    """The pictures are as large as the pages, and dark where the text is."""
    source = tmp_path / "scan.pdf"
    source.write_bytes(made.scanned(made.paper(2)))
    with source.open("rb") as given, (tmp_path / "pictures").open("w+b") as out:
        draw_pages(given.fileno(), out, 5)
        out.seek(0)
        pictures = list(read_pictures(out))
    assert len(pictures) == 2
    for picture in pictures:
        assert (picture.columns, picture.rows) == (round(picture.width * 200 / 72), round(picture.height * 200 / 72))
        dark = sum(pixel < 128 for pixel in picture.pixels)
        assert 0.005 < dark / len(picture.pixels) < 0.2


@pytest.mark.spec("C9")
@pytest.mark.slow
@pytest.mark.may_skip("RapidOCR is an extra")
@pytest.mark.skipif(not is_installed(), reason="The extra `ocr` is not installed.")
async def test_a_scan_is_read_where_the_extra_is_installed(tmp_path: Path) -> None:
    source = tmp_path / "scan.pdf"
    source.write_bytes(made.scanned(made.lists_and_tables()))
    xml = (await EmbeddedGateway().convert(source, timeout_s=600)).decode()
    assert "high water at noon" in xml and "<cell>Brest</cell>" in xml
    assert xml.count("The sea rises and falls twice in a day and the moon is the cause of it all") >= 4


@pytest.mark.spec("C9")
@pytest.mark.slow
async def test_a_scan_is_empty_where_nothing_reads_it(tmp_path: Path) -> None:
    source = tmp_path / "scan.pdf"
    source.write_bytes(made.scanned(made.paper(1)))
    with pytest.raises(CallError, match="no text"):
        await EmbeddedGateway(reads_scans=False).convert(source, timeout_s=60)


@pytest.mark.parametrize(
    ("role", "around", "is_part_of_it"),
    [("P", "LI", True), ("Code", "TD", True), ("Span", "Sect", True), ("P", "Sect", False), ("L", "LI", False)],
)
def test_a_paragraph_stays_part_of_an_item_or_a_cell_and_nothing_else_does(
    role: str, around: str, is_part_of_it: bool
) -> None:
    outer = pdf_tags.Tag(around, 7)
    tag = pdf_tags._TagWalk()._tag(role, outer)
    assert (tag is outer) is is_part_of_it and tag.role == (around if is_part_of_it else role)


@pytest.mark.parametrize(("depth", "count"), [(pdf_tags._DEPTH_MAX + 1, 0), (0, pdf_tags._ELEMENTS_MAX + 1)])
def test_a_tree_of_tags_is_read_to_its_bounds_and_not_beyond(depth: int, count: int) -> None:
    """Either bound ends it: what lies beyond is not even asked of the library, which would refuse this element."""
    walk = pdf_tags._TagWalk()
    walk._count = count
    walk.visit(object(), pdf_tags.Tag("", 0), depth)
    assert (walk.tags, walk._count) == ({}, count)


def test_an_accent_that_was_set_over_a_letter_belongs_to_it() -> None:
    assert _as_written("Introducci\u00b4on") == "Introducci\u00f3n" and _as_written("na\u00a8\u0131ve") == "na\u00efve"
    assert _as_written("\u02c7Skoda") == "\u0160koda" and _as_written("ma\u02dcnana") == "ma\u00f1ana"
    assert _as_written("it\u00b4s") == "it\u00b4s", "that is an apostrophe"

"""A PDF becomes well-formed TEI: its words in reading order, its pages, headings, paragraphs and metadata."""

from __future__ import annotations

import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.systems.conversion import pdfs

from holdfast_systems.conversion import embedded
from holdfast_systems.conversion.blocks import Block, Line, blocks_of_page
from holdfast_systems.conversion.headings import ReadPage
from holdfast_systems.conversion.inline import Span
from holdfast_systems.conversion.layout import Word
from holdfast_systems.conversion.pdf_to_xml import Exit, RefusedDocument, convert, main
from holdfast_systems.conversion.tei import write_tei

TEI = "{http://www.tei-c.org/ns/1.0}"


def tei_of(folder: Path, pdf: bytes, pages_max: int = 100) -> ElementTree.Element:
    source, target = folder / "in.pdf", folder / "out.xml"
    source.write_bytes(pdf)
    with source.open("rb") as given, target.open("wb") as out:
        convert(given.fileno(), out, pages_max)
    return ElementTree.fromstring(target.read_bytes())


def texts(root: ElementTree.Element, name: str) -> list[str]:
    return ["".join(found.itertext()) for found in root.iter(TEI + name)]


@pytest.mark.spec("C9")
def test_pages_headings_and_paragraphs_are_found(tmp_path: Path) -> None:
    root = tei_of(tmp_path, pdfs.good(3))
    assert [found.get("n") for found in root.iter(f"{TEI}pb")] == ["1", "2", "3"]
    assert texts(root, "head") == ["Chapter 1", "Chapter 2", "Chapter 3"]
    body = root.find(f"{TEI}text/{TEI}body")
    assert body is not None
    assert texts(body, "p")[:2] == [
        "The sea rises and falls twice in a day and the moon is the cause of it. This is the first paragraph.",
        "A second paragraph begins after a wider gap and runs over two lines on page 1.",
    ]
    assert len(texts(body, "p")) == 6


@pytest.mark.spec("C9")
def test_the_header_holds_title_author_and_date(tmp_path: Path) -> None:
    header = tei_of(tmp_path, pdfs.good()).find(f"{TEI}teiHeader")
    assert header is not None
    assert texts(header, "title")[0] == pdfs.TITLE
    assert texts(header, "author")[0] == pdfs.AUTHOR
    assert [date.get("when") for date in header.iter(f"{TEI}date")] == [pdfs.CREATED_ISO]


@pytest.mark.spec("C9")
def test_a_file_without_a_title_is_called_by_its_first_heading(tmp_path: Path) -> None:
    stream = pdfs.content([(60, 700, 20, "On Tides"), (60, 660, 10, "The sea rises and falls.")])
    assert texts(tei_of(tmp_path, pdfs.document([stream], title="")), "title")[0] == "On Tides"
    plain = pdfs.content([(60, 660, 10, "The sea rises and falls.")])
    assert texts(tei_of(tmp_path, pdfs.document([plain], title=" ")), "title")[0] == "Untitled"


@pytest.mark.spec("C9")
def test_two_columns_are_read_one_after_the_other(tmp_path: Path) -> None:
    root = tei_of(tmp_path, pdfs.two_column())
    words = " ".join(texts(root, "p"))
    assert re.findall(r"marker (\d\d)", words) == [f"{number:02d}" for number in range(1, 25)]
    assert words.endswith("over both.")
    assert texts(root, "head") == ["Two Columns Of Markers"]


@pytest.mark.spec("C9")
def test_a_table_is_read_by_rows() -> None:
    cells = [
        Word(f"r{row}c{column}", 60.0 + 130 * column, 90.0 + 130 * column, 700.0 - 14 * row, 10.0)
        for row in range(10)
        for column in range(4)
    ]
    (table,) = blocks_of_page(cells, {})
    read = [cell[0].text for row in table.cells for cell in row]
    assert read == [f"r{row}c{column}" for row in range(10) for column in range(4)]


@pytest.mark.spec("C9")
def test_a_word_broken_at_a_line_end_is_whole_again(tmp_path: Path) -> None:
    assert "The word experimental goes over a line end." in texts(tei_of(tmp_path, pdfs.hyphenated()), "p")


@pytest.mark.spec("C9")
@pytest.mark.parametrize("turned", [90, 180, 270])
def test_a_page_that_is_shown_rotated_is_read_as_it_is_shown(tmp_path: Path, turned: int) -> None:
    matrix = {90: "0 1 -1 0 %d 60", 180: "-1 0 0 -1 500 %d", 270: "0 -1 1 0 %d 700"}[turned]
    places = {90: (100, 114), 180: (100, 114), 270: (514, 500)}[turned]
    lines = zip(places, ("The first line is above", "the second."), strict=True)
    shown = b" ".join(b"BT /F1 12 Tf %s Tm (%s) Tj ET" % ((matrix % at).encode(), text.encode()) for at, text in lines)
    pdf = pdfs.document([shown]).replace(b"/Type/Page/Parent", b"/Type/Page/Rotate %d/Parent" % turned)
    assert texts(tei_of(tmp_path, pdf), "p")[-1] == "The first line is above the second."


@pytest.mark.spec("C9")
def test_control_characters_are_left_out_and_markup_is_escaped(tmp_path: Path) -> None:
    root = tei_of(tmp_path, pdfs.control_characters())
    assert texts(root, "title")[0] == "abc <&>"
    assert texts(root, "p")[-1] == "before after <b> & ]]>"


def block(text: str, kind: str) -> Block:
    line = Line([], 0, 9, 9, 9.0, "", False, False, spans=[Span(text, kind == "p", text if kind == "head" else "")])
    return Block([line], kind, marker=text[:3], level=1 + len(text) % 3)


@pytest.mark.spec("C9")
@example(["a", "\ud800"], "", "")
@given(st.lists(st.text(alphabet=st.characters(exclude_categories=())), min_size=1), st.text(), st.text())
def test_any_text_gives_well_formed_xml(found: list[str], title: str, date: str) -> None:
    out = StringIO()
    kinds = ["p", "head", "item", "note", "fw", "figure", "p"]
    pages = [ReadPage(number, [block(text, kinds[number % 7])]) for number, text in enumerate(found, start=1)]
    metadata = {"Title": title, "Author": title, "Keywords": title, "CreationDate": date}
    write_tei(out, [*pages, ReadPage(0, [], readable=False)], metadata, title)
    root = ElementTree.fromstring(out.getvalue().encode("utf-8"))
    assert len(list(root.iter(f"{TEI}pb"))) == len(found) + 1


@pytest.mark.spec("C9")
@given(
    st.lists(
        st.builds(
            Word,
            text=st.text(min_size=1, max_size=5),
            x0=st.floats(0, 600),
            x1=st.floats(0, 600),
            y=st.floats(0, 800),
            size=st.floats(0.1, 40),
        )
    )
)
def test_the_layout_loses_no_word_wherever_it_stands(words: list[Word]) -> None:
    def letters(runs: list[str]) -> list[str]:
        return sorted("".join("".join(runs).split()).replace("\u00ad", ""))

    found = blocks_of_page(words, {})
    kept = [line.text for block in found for line in block.all_lines] + [block.marker for block in found]
    assert letters(kept) == letters([word.text for word in words])


@pytest.mark.spec("C9")
def test_the_same_file_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        tei_of(tmp_path / name, pdfs.two_column())
    assert (tmp_path / "one/out.xml").read_bytes() == (tmp_path / "two/out.xml").read_bytes()


@pytest.mark.spec("C9")
def test_a_page_that_cannot_be_loaded_is_marked_as_a_gap(tmp_path: Path) -> None:
    pdf = pdfs.good(3).replace(b"7 0 obj\n<</Type/Page/", b"7 0 obj\nnull %")
    root = tei_of(tmp_path, pdf)
    assert [found.get("reason") for found in root.iter(f"{TEI}gap")] == ["damaged"]
    assert [found.get("n") for found in root.iter(f"{TEI}pb")] == ["1", "2", "3"]
    assert texts(root, "head") == ["Chapter 1", "Chapter 3"]


@pytest.mark.spec("C9")
def test_a_file_over_the_page_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedDocument) as raised:
        tei_of(tmp_path, pdfs.good(4), pages_max=3)
    assert raised.value.kind is Exit.TOO_MANY_PAGES
    assert (tmp_path / "out.xml").read_bytes() == b""


@pytest.mark.spec("C9")
@pytest.mark.parametrize(
    ("pdf", "kind"),
    [
        (pdfs.good(), Exit.CONVERTED),
        (pdfs.encrypted(), Exit.ENCRYPTED),
        (pdfs.truncated(), Exit.DAMAGED),
        (pdfs.no_text(), Exit.EMPTY),
    ],
)
def test_the_command_says_how_it_went_by_its_code(tmp_path: Path, pdf: bytes, kind: Exit) -> None:
    (tmp_path / "in.pdf").write_bytes(pdf)
    assert main(str(tmp_path / "in.pdf"), str(tmp_path / "out.xml")) == kind
    assert (tmp_path / "out.xml").read_bytes().endswith(b"</TEI>\n") is (kind is Exit.CONVERTED)


@pytest.mark.spec("C9")
def test_the_parent_reads_the_exit_codes_as_the_child_means_them() -> None:
    understood = {*embedded._REFUSALS, embedded._LOCAL_IO, 0}
    assert understood == set(Exit)
    names = {code: name.removeprefix("DOCUMENT_") for code, (name, _) in embedded._REFUSALS.items()}
    assert {Exit(code).name for code in names} - set(names.values()) == {"TOO_MANY_PAGES"}


@pytest.mark.spec("C9")
def test_the_child_starts_light() -> None:
    """The fork server keeps what it imports: what a conversion does not need, it does not load."""
    code = (
        "import sys, holdfast_systems.conversion.pdf_to_xml\n"
        "print(sorted({'asyncio', 'httpx', 'pydantic', 'fastapi', 'ssl'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.stdout == "[]\n", ran.stderr

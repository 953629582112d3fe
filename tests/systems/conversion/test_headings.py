"""Headings that only the whole document tells from what looks like them."""

from __future__ import annotations

import pytest

from holdfast_systems.conversion.blocks import Block, Line, blocks_of_page
from holdfast_systems.conversion.headings import ReadPage
from holdfast_systems.conversion.inline import Span
from holdfast_systems.conversion.layout import Word
from holdfast_systems.conversion.structure import mark_structure

pytestmark = pytest.mark.spec("C9")
PROSE = "The tide turns twice a day, and whoever sails has to know when it does so. " * 8


def line(text: str, size: float = 10, font: str = "Roman", y: float = 400, x0: float = 60) -> Line:
    x1 = x0 + len(text) * size / 2
    bold = "Bold" in font
    return Line([], x0, x1, y, size, font, bold, italic=False, spans=[Span(text)])


def heads(*pages: list[Line]) -> list[str]:
    """What is marked as a heading; each page has prose of its own."""
    read = [
        ReadPage(number, [*(Block([each]) for each in lines), Block([line(PROSE)])], height=800)
        for number, lines in enumerate(pages, 1)
    ]
    mark_structure(read, [])
    return [block.text for page in read for block in page.blocks if block.kind == "head"]


def chapters(*others: Line) -> list[list[Line]]:
    return [[line(f"{number}.1 Springs", 13, "Bold"), *others] for number in range(1, 10)]


def test_names_of_functions_under_numbered_headings_are_no_headings() -> None:
    sections = [f"{number}.1 Springs" for number in range(1, 10)]
    assert heads(*chapters(line("tide init context", 13, "Bold"))) == sections
    assert len(heads(*chapters(line("Springs without a number", 13, "Bold")))) == 18


def test_names_in_bold_are_headings_only_where_headings_look_so() -> None:
    pages = [[line(f"TIDE_{letter}", 10, "Bold")] for letter in "ABCD"]
    assert heads(*pages) == []
    titles = [line(f"Tide {letter} and its moon", 10, "Bold") for letter in "abc"]
    assert len(heads([*titles], *pages, [line("PROSE")])) == 7


def test_a_label_with_other_words_behind_it_is_no_heading() -> None:
    names = ("spring", "neap", "ebb", "flood")
    assert heads(*([line(f"Name: {name}", 10, "Bold")] for name in names)) == []
    assert heads(*([line(f"The {name}", 10, "Bold")] for name in names)) == [f"The {name}" for name in names]


def test_a_number_or_a_short_word_does_not_keep_a_line_from_being_a_heading() -> None:
    assert heads([line("12.4.7 Xor", 14, "Bold")]) == ["12.4.7 Xor"]
    assert heads([line("3.1.13. Comments", 10, "")], [line("3.1.14. Names", 10, "")]) == [
        "3.1.13. Comments",
        "3.1.14. Names",
    ]
    assert heads([line("Figure 2-17: The moon", 14)]) == [], "a caption"


def test_code_is_not_the_text_that_headings_are_larger_than() -> None:
    code = [line("print(tide) " * 60, 8, "Courier")]
    short = line("Its answer is the hour of the tide")
    assert heads([*code, *code, line("Tides", 14), short], [*code, *code, line("Moons", 14), short]) == [
        "Tides",
        "Moons",
    ]


def test_a_section_that_each_page_begins_with_is_no_running_line() -> None:
    names = ("spring", "neap", "ebb", "flood", "slack")
    tops = [line(f"8.{number} The {name}", 12, "Bold", y=780) for number, name in enumerate(names, 3)]
    read = [ReadPage(at, [Block([top]), Block([line(PROSE)])], height=800) for at, top in enumerate(tops, 1)]
    mark_structure(read, [])
    assert [page.blocks[0].kind for page in read] == ["head"] * 5


def test_a_title_in_centred_lines_is_one_heading() -> None:
    above, below = line("Creating puzzles of the sea", 20, y=700), line("with tides", 20, y=676)
    below.x0, below.x1 = above.x0 + 40, above.x1 - 40
    assert heads([above, below]) == ["Creating puzzles of the sea with tides"]
    below.x0, below.x1 = above.x0, above.x1 - 80
    assert len(heads([above, below])) == 2


def test_a_heading_goes_on_below_its_first_word() -> None:
    def words(text: str, y: float, x0: float, *, bold: bool) -> list[Word]:
        return [Word(text, x0, x0 + 8 * len(text), y, 14, "Bold" if bold else "Roman", bold)]

    first, more = "3.1 Which of the many kinds of tides", "is the best for me"
    numbered = blocks_of_page([*words(first, 500, 60, bold=True), *words(more, 482, 96, bold=True)], {})
    assert [len(block.lines) for block in numbered] == [2]
    plain = blocks_of_page([*words(first, 500, 60, bold=False), *words(more, 482, 96, bold=False)], {})
    assert [len(block.lines) for block in plain] == [1, 1]


def test_a_large_label_that_returns_inside_a_section_is_no_heading() -> None:
    sections = [[line(f"Tides of {letter}", 16, "Bold"), line("Summary", 14, "Bold")] for letter in "abcdef"]
    assert len(heads(*sections)) == 12, "once in each section"
    note = line("Note", 14, "Bold")
    assert len(heads(*(page for lines in sections for page in ([*lines], [note], [note])))) == 12


def test_text_above_long_notes_in_small_print_is_no_heading() -> None:
    words = ("tide", "moon", "wind", "swell", "sand", "light", "shoal", "ebb", "rip")
    text = [
        line(f"{a} {word} turns twice a day, and who sails has to know", 11) for a in ("One", "No") for word in words
    ]
    notes = [line(PROSE * 3, 8)]
    found = heads([line("Moons", 14, "Bold"), *text, *notes], [line("Tides", 14, "Bold"), *text, *notes])
    assert found == ["Moons", "Tides"]


def test_the_number_above_the_title_of_a_chapter_is_no_heading() -> None:
    def chapter(number: str, title: str) -> list[Line]:
        return [line(text, 14, "Bold", y=700 - 30 * at, x0=400) for at, text in enumerate(("CHAPTER", number, title))]

    assert heads(chapter("TWO", "SPRINGS"), chapter("TWENTYTWO", "NEAPS")) == ["SPRINGS", "NEAPS"]


def test_names_of_settings_are_no_headings() -> None:
    names = ("KRB5CCNAME", "TIDE2", "file=tide", "X509_anchors")
    assert heads([line("Springs", 14, "Bold")], *([line(name, 10, "Bold")] for name in names)) == ["Springs"]


def test_titles_in_capitals_at_the_top_of_each_page_are_running_lines() -> None:
    tops = ("CHAPTER 2. TIDES 2.1. SPRINGS", "2.2. NEAPS", "CHAPTER 2. TIDES 2.3. EBBS", "CHAPTER 3. MOONS")
    read = [
        ReadPage(at, [Block([line(top, 9, y=780)]), Block([line(PROSE)])], height=800) for at, top in enumerate(tops)
    ]
    mark_structure(read, [])
    assert [page.blocks[0].kind for page in read] == ["fw"] * 4


def test_a_numbered_line_over_the_middle_of_its_text_is_a_heading() -> None:
    """As journals of astronomy set them: in the type of the text, the third level smaller."""
    middle = (line(PROSE).x0 + line(PROSE).x1) / 2

    def centred(text: str, size: float = 10) -> Line:
        return line(text, size, x0=middle - len(text) * size / 4)

    found = heads([centred("2. METHODS OF MEASURE")], [centred("3.1.2. Springs", 9)], [centred("III. Neaps")])
    assert found == ["2. METHODS OF MEASURE", "3.1.2. Springs", "III. Neaps"]
    assert heads([line("2. Methods of measure")], [centred("2. Take the sum,")], [centred("Said the sailor")]) == []
    words = [Word("2. Methods", 250, 300, 500, 10), Word("Tide " * 20, 60, 490, 484, 10)]
    assert [len(block.lines) for block in blocks_of_page([*words, Word("moon.", 60, 90, 472, 10)], {})] == [1, 2]


def test_a_section_of_a_part_with_a_roman_number_is_a_heading() -> None:
    assert heads([line("III.1. The first tide", 10, "Roman-Oblique")]) == ["III.1. The first tide"]


def test_a_large_running_line_has_the_number_of_its_page() -> None:
    def tops(*texts: str) -> list[str]:
        read = [
            ReadPage(at, [Block([line(text, 14, "Bold", y=780)]), Block([line(PROSE)])], height=800)
            for at, text in enumerate(texts, 1)
        ]
        mark_structure(read, [])
        return [page.blocks[0].kind for page in read]

    assert tops(*(f"The Sailor's Guide to Tides {number}" for number in range(1, 6))) == ["fw"] * 5
    assert tops(*(f"Chapter {number}" for number in range(1, 6))) == ["head"] * 5

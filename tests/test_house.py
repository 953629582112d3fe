"""What ARCHITECTURE says of the house is counted by `scripts/house`, and does not get worse."""

from __future__ import annotations

import ast
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
LOADER = SourceFileLoader("house", str(REPOSITORY / "scripts" / "house"))
SPEC = spec_from_loader("house", LOADER)
assert SPEC is not None
house = module_from_spec(SPEC)
LOADER.exec_module(house)
PACKAGE = REPOSITORY / "src" / "holdfast"
COMPLEXITY_MAX = 12
UNTYPED = {
    "rows": "a statement's parameters are of the types that its columns have, and drivers take any",
    "settings_now": "settings check what they are given, in sentences",
    "ask": "passed on to the HTTP client as it is",
    "create_parser": "Django's own signature",
    "create": "aiormq's own signature",
}


def test_no_row_is_read_by_text_above_the_tables() -> None:
    assert house.row_lines(PACKAGE) == []


def test_the_dialect_is_asked_in_stores_and_tables_alone() -> None:
    assert house.dialect_asked(REPOSITORY / "src") == []


def test_no_public_function_takes_anything_by_any_name() -> None:
    assert {door for door in house.untyped_doors(PACKAGE) if door.split()[-1] not in UNTYPED} == set()


def test_no_function_branches_too_often() -> None:
    assert [each for each in house.worst(PACKAGE) if each[0] > COMPLEXITY_MAX] == []


@pytest.mark.parametrize("line", ['if store.dialect == "sqlite": pass', 'x = 1 if "postgres" != tx.dialect else 2'])
def test_the_count_sees_a_dialect_that_is_asked(line: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(line)
    assert house.dialect_asked(tmp_path) == ["a.py:1"]


def test_the_count_sees_rows_doors_and_branches(tmp_path: Path) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "a.py").write_text('def f(**x: Any):\n    return row["id"]\n')
    assert house.row_lines(tmp_path) == ["kernel/a.py:2"] and house.untyped_doors(tmp_path) == ["kernel/a.py:1 f"]
    branches = "\n".join("    if x: pass" for _ in range(COMPLEXITY_MAX))
    (function,) = ast.parse(f"def f(x):\n{branches}\n").body
    assert house.complexity(function) == COMPLEXITY_MAX + 1


def test_the_page_says_what_is_counted() -> None:
    page = (REPOSITORY / "ARCHITECTURE.md").read_text()
    moving = ("lines of Python", "worst function")  # the one grows, the other has a bound of its own
    counted = {what: figure for what, figure in house.figures(REPOSITORY).items() if not what.startswith(moving)}
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]
    said = {cells[0]: cells[-1] for cells in rows if cells[0] in counted}
    assert said == counted

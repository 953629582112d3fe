"""The shape of the code is kept by tests: sizes, purity of the core, SQL beside its functions, clean words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCE = REPOSITORY / "src"
TABLES = SOURCE / "holdfast" / "tables"
CODE = ("src", "tests", "bench", "quality")
FILE_LINES_MAX = 350
FUNCTION_LINES_MAX = 60
# "src/holdfast/x.py" or "src/holdfast/x.py:function", each with its reason. Empty is how it should stay.
ALLOWED: dict[str, str] = {}

BANNED_MODULES = {"time", "random", "asyncio", "os"}
BANNED_CALLS = {"uuid4", "uuid1", "now", "utcnow", "today"}
# Spelled in pieces, so that this file passes its own check. A comment counts; a word in a string is data.
MACHINE_PATH = re.compile("/(" + "|".join(("wor" + "k", "far" + "m", "roo" + "t")) + ")/")
POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})[+]")
UNFINISHED = re.compile(r"(^|\s)(#|--|//|<!--)\s*(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b")


SYSTEM_WORDS = re.compile(
    r"\b(grading|graders?|graded|learners?|instructors?|conversion|changelists?|reviewers?|holdfast[-_]systems)\b"
    r"|/convert\b|/api/submissions|REVIEW_REQUIRED",
    re.IGNORECASE,
)
"""Words that only the three systems have, in code, pages, scripts, SQL and comments."""


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (REPOSITORY / folder).rglob("*.py"))


def named(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def test_no_file_is_longer_than_a_person_reads_at_once() -> None:
    lengths = {named(path): len(path.read_text().splitlines()) for path in python_files(*CODE)}
    assert {name: n for name, n in lengths.items() if n > FILE_LINES_MAX and name not in ALLOWED} == {}


def test_no_function_is_longer_than_a_screen() -> None:
    long = {}
    for path in python_files(*CODE):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                name = f"{named(path)}:{node.name}"
                if lines > FUNCTION_LINES_MAX and name not in ALLOWED:
                    long[name] = lines
    assert long == {}


def test_the_library_knows_none_of_the_systems() -> None:
    texts = [path for path in sorted((SOURCE / "holdfast").rglob("*.*")) if path.suffix not in (".pyc", ".woff2")]
    assert {path.suffix for path in texts} >= {".py", ".sql", ".js", ".html", ".css"}
    assert [
        f"{named(path)}:{number}: {line.strip()}"
        for path in texts
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if SYSTEM_WORDS.search(line)
    ] == []


def test_the_core_reads_no_clock_no_luck_and_no_world() -> None:
    found = [
        f"{named(path)}:{line}: {what}"
        for path in python_files("src/holdfast/core")
        for line, what in impurities(ast.parse(path.read_text()))
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    """import time; import os.path; from random import random; from asyncio import sleep; uuid.uuid4()
    datetime.now(UTC); datetime.datetime.utcnow(); date.today(); make(uuid4)""".replace("\n", ";").split(";"),
)
def test_the_purity_check_sees(line: str) -> None:
    assert list(impurities(ast.parse(line.strip())))


def impurities(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every banned import and every mention of a banned call."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names if _root(alias.name) in BANNED_MODULES)
            case ast.ImportFrom(module=str(module)) if _root(module) in BANNED_MODULES:
                yield node.lineno, module
            case ast.Attribute(attr=name, value=ast.Name(id="uuid" | "datetime" | "date")) if name in BANNED_CALLS:
                yield node.lineno, name
            case ast.Attribute(attr=name, value=ast.Attribute(attr="datetime" | "date")) if name in BANNED_CALLS:
                yield node.lineno, name
            case ast.Name(id="uuid4" | "uuid1" as name):
                yield node.lineno, name


def _root(module: str) -> str:
    return module.partition(".")[0]


def test_the_public_names_are_sorted_and_there() -> None:
    public = holdfast.__all__
    assert list(public) == sorted(public)
    assert [name for name in public if not hasattr(holdfast, name)] == []


@pytest.mark.parametrize("sql", sorted(TABLES.glob("*.sql")), ids=lambda path: path.stem)
def test_every_statement_is_run_by_the_module_beside_it(sql: Path) -> None:
    """By the function of its name, or as a step of another's."""
    python = sql.with_suffix(".py")
    statements = set(re.findall(r"^-- name: (\w+)", sql.read_text(), re.MULTILINE))
    run = {
        node.attr
        for node in ast.walk(ast.parse(python.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sql"
    }
    assert statements - run - assigned(python) == set()


def assigned(path: Path) -> set[str]:
    """The names that a module assigns at its top level, as `claim = Statement(...)` does."""
    targets: list[ast.expr] = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign):
            targets += node.targets
        elif isinstance(node, ast.AnnAssign):
            targets.append(node.target)
    return {target.id for target in targets if isinstance(target, ast.Name)}


def test_nothing_names_a_path_of_one_machine_or_is_left_unfinished() -> None:
    found = [
        f"{named(path)}:{number}: {line.strip()}"
        for path in text_files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if MACHINE_PATH.search(line) or UNFINISHED.search(line)
    ]
    assert found == []


def test_no_group_repeats_possessively() -> None:
    """Python before 3.11.5, as Debian 12 ships it, can miss a match of such a pattern."""
    sources = [*(REPOSITORY / "src").rglob("*.py"), *(REPOSITORY / "tests").rglob("*.py")]
    assert [named(path) for path in sources if POSSESSIVE_GROUP.search(path.read_text())] == []


def text_files() -> Iterator[Path]:
    """What we write by hand; the compiled requirements are not."""
    kinds = {".py", ".md", ".toml", ".sql", ".yaml", ".yml", ".html", ".css", ".js", ".cfg"}
    for folder in (*CODE, "docs", "scripts", ".ci"):
        for path in sorted((REPOSITORY / folder).rglob("*")):
            by_hand = path.suffix in kinds or (path.suffix == "" and folder in ("scripts", ".ci"))
            if by_hand and path.is_file():
                yield path
    yield from (path for path in sorted(REPOSITORY.iterdir()) if path.suffix in kinds or path.name == "Makefile")

"""One word per idea: class names are unique, words that say nothing leave the heart of the code, and the glossary knows
every type of a public signature."""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import holdfast

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCE = REPOSITORY / "src"
EMPTY_WORDS = {"one", "told", "said", "made", "found"}
BUDGETS = {"core": 0, "kernel": 0, "tables": 0, "engines": 0}
"""How many names in each folder still are such a word. Only ever lower these."""


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def classes() -> Iterator[tuple[str, str]]:
    """Every class that a module declares at its top level, and where."""
    for package in ("holdfast", "holdfast_proof", "holdfast_systems"):
        for path in sorted((SOURCE / package).rglob("*.py")):
            for node in parsed(path).body:
                if isinstance(node, ast.ClassDef):
                    yield node.name, path.relative_to(SOURCE).as_posix()


def test_no_two_classes_have_one_name() -> None:
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for name, home in classes():
        homes[name].append(home)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def names(path: Path) -> Iterator[str]:
    """Every name that a module binds or reads: variables, parameters, attributes, functions."""
    for node in ast.walk(parsed(path)):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.keyword(arg=str(name)):
                yield name


@pytest.mark.parametrize("folder", sorted(BUDGETS))
def test_names_that_say_nothing_only_get_fewer(folder: str) -> None:
    counts = Counter(
        path.relative_to(SOURCE).as_posix()
        for path in (SOURCE / "holdfast" / folder).rglob("*.py")
        for name in names(path)
        if name in EMPTY_WORDS
    )
    assert counts.total() <= BUDGETS[folder], counts.most_common(12)


def nouns(thing: object, known: set[str]) -> set[str]:
    """The types of ours in a function's signature, or in those of a class's public methods."""
    if isinstance(thing, type):
        parts = [getattr(member, "__func__", member) for name, member in vars(thing).items() if name[0] != "_"]
        return {noun for part in parts if inspect.isroutine(part) for noun in nouns(part, known)}
    if not inspect.isroutine(thing):
        return set()
    signature = inspect.signature(thing)
    annotations = [each.annotation for each in signature.parameters.values()] + [signature.return_annotation]
    return {word for text in annotations for word in re.findall(r"[A-Z]\w+", str(text))} & known


def test_the_glossary_knows_every_type_of_a_public_signature() -> None:
    ours = {name for name, home in classes() if home.startswith("holdfast/")}
    public = {name: getattr(holdfast, name) for name in holdfast.__all__}
    types = {name for name, thing in public.items() if isinstance(thing, type) and not issubclass(thing, Exception)}
    wanted = types | {noun for thing in public.values() for noun in nouns(thing, ours)}
    table = (REPOSITORY / "docs" / "glossary.md").read_text().partition("| --- |")[2]
    words = {word.strip("` ") for line in table.splitlines() for word in line.strip("|").split("|")[0].split(",")}
    assert sorted(noun for noun in wanted if noun not in words and _spelled_out(noun) not in words) == []


ODD_WORDS = re.compile(
    r"\b(?:(?<!/)mend(?!_|`)\w*|anew|heed|for ever|st(?:oo|an)ds? still|shall|is due since|so many a)\b",
    re.I,
)
"""Words that an engineer would not use where something is to be done."""


def instructions() -> Iterator[tuple[str, str]]:
    """What people read to act: the pages that instruct, and every text of the program that is no docstring."""
    for folder in ("how-to", "tutorial", "reference"):
        for path in sorted((REPOSITORY / "docs" / folder).glob("*.md")):
            yield path.name, path.read_text()
    yield "README.md", (REPOSITORY / "README.md").read_text()
    for package in ("holdfast", "holdfast_systems"):
        for path in sorted((SOURCE / package).rglob("*.py")):
            nodes = list(ast.walk(parsed(path)))
            docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
            for node in nodes:
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                    yield f"{path.name}:{node.lineno}", node.value


def test_instructions_are_in_plain_words() -> None:
    odd = [(where, match[0]) for where, text in instructions() for match in ODD_WORDS.finditer(text)]
    assert odd == []


def _spelled_out(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()

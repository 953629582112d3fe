"""Nothing is counted and thrown away: every name in the source is declared, with its labels, and every one is used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from holdfast.kernel.observe.counters import COUNTERS, TIMINGS
from holdfast.main import load_systems
from tests.test_shape import named, python_files

pytestmark = pytest.mark.spec("K17", "001.28")
DECLARED = {
    **{("count", one.name): set(one.labels) for one in COUNTERS},
    **{("count", one.name): set(one.labels) for system in load_systems() for one in system.counters},
    **{("observe", one.name): set(one.labels) for one in TIMINGS},
}


@cache
def calls_of(path: Path) -> list[ast.Call]:
    """Those of a file. To read what names no watch takes most of the time."""
    text = path.read_text()
    return list(calls(ast.parse(text))) if "watch" in text else []


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Every `watch.count(...)` and `watch.observe(...)`, whoever's watch it is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            holder = node.func.value
            owner = holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", "")
            if node.func.attr in ("count", "observe") and owner == "watch":
                yield node


def fault(call: ast.Call) -> str | None:
    """What is wrong with one call."""
    assert isinstance(call.func, ast.Attribute)
    name = call.args[0] if call.args else None
    if not isinstance(name, ast.Constant):
        return "its name must be written out"
    labels = DECLARED.get((call.func.attr, name.value))
    if labels is None:
        return f"nobody declares '{name.value}'"
    given = {keyword.arg for keyword in call.keywords} - {"amount"}
    return None if given == labels else f"'{name.value}' has the labels {sorted(labels)}"


def test_whatever_is_counted_is_declared_with_its_labels() -> None:
    found = [
        f"{named(path)}:{call.lineno}: {problem}"
        for path in python_files("src")
        for call in calls_of(path)
        if (problem := fault(call))
    ]
    assert found == []


def test_whatever_is_declared_is_counted() -> None:
    source = [call for path in python_files("src") for call in calls_of(path)]
    counted = {(call.func.attr, call.args[0].value) for call in source}  # type: ignore[attr-defined]
    assert DECLARED.keys() - counted == set()


@pytest.mark.parametrize(
    "line",
    [
        'kernel.watch.count("nobody_declares_me")',
        'watch.count(name, kind="a")',
        'self._kernel.watch.count("jobs_created")',
        'watch.count("jobs_created", kind="a", colour="red")',
        'kernel.watch.observe("jobs_created", 1, kind="a")',
    ],
)
def test_the_walk_sees(line: str) -> None:
    assert [fault(call) for call in calls(ast.parse(line))] != [None]
    assert list(calls(ast.parse(line)))

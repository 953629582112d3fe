"""A type checker finds at the desk what the door would refuse: mypy and pyright, over right and wrong examples."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import get_overloads

import pytest

import holdfast
from holdfast import kit
from tests.services.fixtures import do_without
from tests.services.found import REPOSITORY, find_node

RIGHT = REPOSITORY / "tests/door/typed/right.py"
WRONG = REPOSITORY / "tests/door/typed/wrong.py"


def mypy(path: Path) -> set[int]:
    """The lines that it refuses."""
    command = [sys.executable, "-m", "mypy", "--strict", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return {int(line) for line in re.findall(rf"^\S*{path.name}:(\d+): error", done.stdout, re.MULTILINE)}


def pyright(path: Path) -> set[int]:
    node, package = find_node(), importlib.util.find_spec("pyright")
    if node is None or package is None or package.origin is None:
        do_without("pyright, or the Node.js 20 that runs it, is not here; `make servers` fetches it")
    program = Path(package.origin).parent / "dist" / "index.js"
    command = [node.program, str(program), "--outputjson", "--pythonpath", sys.executable, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"}


CHECKERS = [mypy, pyright]
NAMES_MAX = 60
COROUTINE = re.compile(r"\b(Coroutine|Generator)\[Any, Any, ")
"""How the type of something to await is written; it says nothing of what our own functions take or give."""


@pytest.mark.slow
@pytest.mark.spec("K1")
@pytest.mark.parametrize("check", CHECKERS)
def test_right_code_is_accepted(check: Callable[[Path], set[int]]) -> None:
    assert check(RIGHT) == set()


@pytest.mark.slow
@pytest.mark.spec("K1")
@pytest.mark.parametrize("check", CHECKERS)
def test_wrong_code_is_refused_where_it_is_wrong(check: Callable[[Path], set[int]]) -> None:
    lines = WRONG.read_text().splitlines()
    assert check(WRONG) == {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}


def signatures(name: str, value: object) -> Iterator[tuple[str, str]]:
    """What a public name takes and gives: each annotation as it is written, with its place."""
    if inspect.isclass(value):
        yield from ((f"{name}.{field}", str(kind)) for field, kind in inspect.get_annotations(value).items())
        for member in (each for each in dir(value) if not each.startswith("_") or each == "__init__"):
            raw = inspect.getattr_static(value, member)
            called = raw.fget if isinstance(raw, property) else getattr(raw, "__func__", raw)
            if inspect.isfunction(called) and called.__module__.startswith("holdfast."):
                yield from signatures(f"{name}.{member}", called)
    elif inspect.isfunction(value):
        for each in get_overloads(value) or [value]:
            yield from ((f"{name}({field})", str(kind)) for field, kind in inspect.get_annotations(each).items())


def test_no_public_signature_gives_up_on_types() -> None:
    found = [each for name in holdfast.__all__ for each in signatures(name, getattr(holdfast, name))]
    assert len(found) > 300, "the walk sees the surface"
    vague = [f"{place}: {kind}" for place, kind in found if re.search(r"\bAny\b", COROUTINE.sub("", kind))]
    assert vague == []


def test_the_public_names_are_few_and_in_one_list() -> None:
    """What an app and what a system is written with, without the modules that have a page of their own."""
    names = [*holdfast.__all__, *kit.__all__]
    assert len(names) <= NAMES_MAX and len(set(names)) == len(names)
    assert sorted(holdfast.__all__) == holdfast.__all__


def test_every_module_of_the_kit_hands_out_what_it_lists_and_lists_it_once() -> None:
    modules = [kit, *(import_module(f"holdfast.kit.{each.name}") for each in iter_modules(kit.__path__))]
    listed = [name for module in modules for name in module.__all__]
    assert len(modules) == 5 and len(listed) == len(set(listed))
    assert [name for module in modules for name in module.__all__ if not hasattr(module, name)] == []

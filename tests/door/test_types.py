"""A type checker finds at the desk what the door would refuse: mypy and pyright, over right and wrong examples."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.services.fixtures import do_without
from tests.services.found import REPOSITORY, find_node

pytestmark = [pytest.mark.spec("K1"), pytest.mark.slow]
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


@pytest.mark.parametrize("check", CHECKERS)
def test_right_code_is_accepted(check: Callable[[Path], set[int]]) -> None:
    assert check(RIGHT) == set()


@pytest.mark.parametrize("check", CHECKERS)
def test_wrong_code_is_refused_where_it_is_wrong(check: Callable[[Path], set[int]]) -> None:
    lines = WRONG.read_text().splitlines()
    assert check(WRONG) == {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}

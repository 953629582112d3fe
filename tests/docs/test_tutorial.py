"""The tutorial is typed in as it stands, from an empty folder to the end, and prints what it says."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, Block, blocks, install, missing, run

PAGE = ROOT / "docs" / "tutorial" / "first-job.md"


def typed(block: Block) -> str:
    """A block as a reader carries it out: a shell block is typed, a program is saved under the name it is given."""
    if block.kind == "sh":
        return block.text
    (name,) = re.findall(r"[Ss]ave this as `([\w.]+)`", block.before)
    return f"cat > {name} <<'END OF FILE'\n{block.text}END OF FILE"


@pytest.mark.slow
@pytest.mark.spec("K1", "K3", "K7", "K8", "K12")
def test_the_tutorial_works_as_it_is_written(tmp_path: Path) -> None:
    env = install(tmp_path / "home")
    (tmp_path / "empty").mkdir()
    page = blocks(PAGE)
    steps = [block for block in page if block.kind in ("sh", "python")]
    printed = dict(zip(steps, run([typed(block) for block in steps], tmp_path / "empty", env), strict=True))
    wrong = []
    for before, block in pairwise(page):
        if block.kind == "text":
            assert before.kind == "sh", "output stands below what prints it"
            wrong += [f"{before.name} did not print: {line}" for line in missing(block.text, printed[before])]
    assert wrong == [], "\n".join(printed.values())


def test_output_that_is_not_there_is_seen() -> None:
    assert missing("a…c\nd", "x\nabc\nd\n") == []
    assert missing("d\na", "a\nd\n") == ["a"]

"""The order of the ledger is kept by code review too: who reads which change is written down, and the files exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEDGER = ("core/effect.py", "kernel/effects.py", "kernel/ledger/reconcile.py", "tables/effects.sql", "review/notify.py")


def owned() -> dict[str, str]:
    lines = (ROOT / "CODEOWNERS").read_text().splitlines()
    return dict(line.split(maxsplit=1) for line in lines if line.strip() and not line.startswith("#"))


@pytest.mark.spec("004.30")
def test_every_path_of_the_code_owners_exists_and_the_ledger_is_among_them() -> None:
    paths = owned()
    missing = [path for path in paths if not (ROOT / path.lstrip("/")).exists()]
    assert missing == [] and all(owner.startswith("@") for owner in paths.values())
    for name in LEDGER:
        assert any(path.endswith(name) for path in paths), f"nobody reads changes of {name}"
    sending = [path for path in (ROOT / "src").rglob("*.py") if "effects.mark(" in path.read_text()]
    assert sending and all(f"/{path.relative_to(ROOT)}" in paths for path in sending), "what marks a send has an owner"


@pytest.mark.spec("004.30")
def test_contributing_says_the_order_and_names_what_keeps_it() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = re.search(r"## The order of the ledger\n(.*?)\n## ", text, re.DOTALL)
    assert section is not None and "send, then mark" in section[1].lower() and "CODEOWNERS" in section[1]
    for path in re.findall(r"`((?:tests|src)/[^`]+)`", section[1]):
        assert (ROOT / path).exists(), path

"""SECURITY.md names, for each threat, the test that holds the line: it exists, and no test here is left out."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "SECURITY.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| threat", "| ---"))]


def test_every_threat_names_tests_that_exist() -> None:
    assert len(ROWS) >= 15
    for row in ROWS:
        threat, defence, named = (cell.strip() for cell in row.strip("|").split("|"))
        files = re.findall(r"`(tests/[\w/]+\.py)`", named)
        assert threat and defence and files, row
        for file in files:
            assert (REPOSITORY / file).is_file(), f"{file} does not exist"
            assert re.search(r"^(?:async )?def test_", (REPOSITORY / file).read_text(), re.MULTILINE), file


def test_every_test_of_security_holds_a_line() -> None:
    found = {f"tests/security/{path.name}" for path in Path(__file__).parent.glob("test_*.py")}
    assert sorted(file for file in found if file not in PAGE and not file.endswith("test_security_page.py")) == []


def test_the_pins_have_a_date() -> None:
    dated = re.search(r"last made anew by `make lock` on (\d{4}-\d\d-\d\d)", PAGE)
    assert dated is not None and date.fromisoformat(dated[1]) >= date(2026, 11, 17)

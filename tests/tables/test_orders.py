"""A list goes along its index: it is not sorted by the text that it gives back.

To PostgreSQL `ORDER BY id` means the column of the answer if there is one of that name, and an id is given back as
text: a page of fifty jobs then sorts a million of them. SQLite has no such type, and no such difference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
GIVEN_BACK = re.compile(r"CAST\((?:\w+\.)?(\w+) AS TEXT\) AS \1\b")
LISTS = [
    pytest.param(block, id=f"{path.stem}.{block.split()[2]}")
    for path in sorted(SOURCE.rglob("*.sql"))
    for block in re.split(r"(?=^-- name: )", path.read_text(), flags=re.MULTILINE)
    if block.startswith("-- name: ") and GIVEN_BACK.search(block) and "ORDER BY" in block
]


@pytest.mark.parametrize("text", LISTS)
def test_no_list_is_sorted_by_the_text_of_an_id(text: str) -> None:
    before, _, order = text.rpartition("ORDER BY")
    columns = [part.split()[0] for part in order.split("LIMIT")[0].split(",")]
    bare = [name for name in GIVEN_BACK.findall(before) if name in columns]
    assert not bare, f"say whose {bare[0]} it is"

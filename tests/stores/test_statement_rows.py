"""A row that several statements spell is declared once."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.stores.statement import load_statements


class Pair(NamedTuple):
    id: str
    count: int
    note: str | None
    at: int | None


def spelled(tmp_path: Path, text: str) -> tuple[str, str]:
    path = tmp_path / "pairs.sql"
    path.write_text(f"-- name: one\n{text}\n")
    statement = load_statements(path, Pair).one
    return statement.sqlite, statement.postgres


@pytest.mark.spec("K19")
@pytest.mark.parametrize(
    "text, sqlite, postgres",
    [
        ("SELECT /*Pair*/ FROM t", *["SELECT CAST(id AS TEXT) AS id, count, note, at FROM t"] * 2),
        ("SELECT /*Pair of j*/ FROM t", *["SELECT j.id, j.count, j.note, j.at FROM t"] * 2),
        ("SELECT 1, /*Pair absent*/", *["SELECT 1, NULL, NULL, NULL"] * 2),
        (
            "SELECT /*Pair from e*/ FROM json_each(:batch) AS e",
            "SELECT e.value->>0 AS id, e.value->>1 AS count, e.value->>2 AS note, e.value->>3 AS at"
            " FROM json_each(:batch) AS e",
            "SELECT e.value->>0 AS id, CAST(e.value->>1 AS BIGINT) AS count, e.value->>2 AS note,"
            " CAST(e.value->>3 AS BIGINT) AS at FROM jsonb_each($1) AS e",
        ),
    ],
)
def test_a_declared_row_is_spelled_by_the_loader(tmp_path: Path, text: str, sqlite: str, postgres: str) -> None:
    assert spelled(tmp_path, text) == (sqlite, postgres)


@pytest.mark.spec("K19")
def test_a_row_that_nobody_declares_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="spells the row 'Triple'"):
        spelled(tmp_path, "SELECT /*Triple*/ FROM t")

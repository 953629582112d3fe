"""A row that several statements spell is declared once."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.stores.statement import load_statements, statement_of
from tests.kernel.places import Place, close_all


class Pair(NamedTuple):
    id: str
    number: int
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
        ("SELECT /*Pair*/ FROM t", *["SELECT CAST(id AS TEXT) AS id, number, note, at FROM t"] * 2),
        ("SELECT /*Pair of j*/ FROM t", *["SELECT j.id, j.number, j.note, j.at FROM t"] * 2),
        ("SELECT /*Pair in j*/ FROM t", *["SELECT CAST(j.id AS TEXT) AS id, j.number, j.note, j.at FROM t"] * 2),
        ("SELECT 1, /*Pair absent*/", *["SELECT 1, NULL, NULL, NULL"] * 2),
        (
            "SELECT /*Pair from e*/ FROM json_each(:batch) AS e",
            "SELECT e.value->>0 AS id, e.value->>1 AS number, e.value->>2 AS note, e.value->>3 AS at"
            " FROM json_each(:batch) AS e",
            "SELECT e.value->>0 AS id, CAST(e.value->>1 AS BIGINT) AS number, e.value->>2 AS note,"
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


class Id(NamedTuple):
    id: str


@pytest.mark.spec("K19")
async def test_rows_are_named_by_their_columns_in_whatever_order_they_come(place: Place) -> None:
    store = place.open()
    pair = statement_of("SELECT CAST(:count AS INTEGER) AS number, NULL AS at, 'n' AS note, 9 AS more, 'x' AS id")
    async with store.reading() as tx:
        assert await tx.rows(pair, into=Pair, count=3) == [Pair("x", 3, "n", None)]
        assert await tx.rows(pair, into=Id, count=3) == [Id("x")]
        assert await tx.rows(statement_of("SELECT 'x' AS id WHERE 1 = 0"), into=Pair) == []
        with pytest.raises(LookupError):
            await tx.rows(statement_of("SELECT 'x' AS id"), into=Pair)
    await close_all(place)

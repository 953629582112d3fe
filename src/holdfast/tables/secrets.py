"""Credentials that were given with addresses, sealed, each with the job or the row that it belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch

sql = load_statements(Path(__file__).with_suffix(".sql"))


class NewSecret(NamedTuple):
    """What its owner refers to by `number`."""

    number: int
    sealed: str


async def put(tx: Tx, sealed: Mapping[str, Sequence[NewSecret]], now: int) -> None:
    """Keep secrets by their owners; writing the same ones again changes nothing."""
    rows = [(owner, each.number, each.sealed) for owner, own in sealed.items() for each in own]
    if rows:
        await tx.rows(sql.put, batch=batch.numbered(rows), now=now)


async def of_owners(tx: Tx, owners: Iterable[str]) -> dict[str, dict[int, str]]:
    """What belongs to these, by owner and number."""
    secrets: dict[str, dict[int, str]] = {}
    for row in await tx.rows(sql.of_owners, batch=batch.ids(owners)):
        secrets.setdefault(row["owner"], {})[row["number"]] = row["sealed"]
    return secrets


async def forget(tx: Tx, owners: Iterable[str]) -> None:
    """Erase what belongs to these."""
    await tx.rows(sql.forget, batch=batch.ids(owners))

"""The first row of a statement, with names and types. Above `tables` a row has no other form (`Tx.rows(into=)`)."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from holdfast.stores.seam import Tx
from holdfast.stores.statement import Statement

R = TypeVar("R", bound=NamedTuple)


async def fetch_first(into: type[R], tx: Tx, statement: Statement, **params: object) -> R | None:
    """The first row that the statement returns; None if it returns none."""
    rows = await tx.rows(statement, into=into, **params)
    return rows[0] if rows else None

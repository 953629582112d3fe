"""Single-use tickets that let an `EventSource`, which can send no header, open a stream."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables.typed import fetch_first

sql = load_statements(Path(__file__).with_suffix(".sql"))


async def put(tx: Tx, digest: str, sub: str, roles: str, expires_at: int) -> None:
    await tx.rows(sql.put, digest=digest, sub=sub, roles=roles, expires_at=expires_at)


class Ticket(NamedTuple):
    sub: str
    roles: str
    expires_at: int


async def redeem(tx: Tx, digest: str) -> Ticket | None:
    """Take the ticket, whether or not it is still good. None: unknown, or used before."""
    return await fetch_first(Ticket, tx, sql.redeem, digest=digest)


async def prune(tx: Tx, now: int) -> None:
    await tx.rows(sql.prune, now=now)

"""Single-use tickets that let an `EventSource`, which can send no header, open a stream."""

from __future__ import annotations

from pathlib import Path

from holdfast.stores.seam import Row, Tx
from holdfast.stores.statement import load_statements

sql = load_statements(Path(__file__).with_suffix(".sql"))


async def put(tx: Tx, digest: str, sub: str, roles: str, expires_at: int) -> None:
    await tx.rows(sql.put, digest=digest, sub=sub, roles=roles, expires_at=expires_at)


async def redeem(tx: Tx, digest: str) -> Row | None:
    """Take the ticket, whether or not it is still good. None: unknown, or used before."""
    rows = await tx.rows(sql.redeem, digest=digest)
    return rows[0] if rows else None


async def prune(tx: Tx, now: int) -> None:
    await tx.rows(sql.prune, now=now)

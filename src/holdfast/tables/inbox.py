"""Messages already handled. A row is written in the transaction of the message's effects."""

from __future__ import annotations

from pathlib import Path

from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements

sql = load_statements(Path(__file__).with_suffix(".sql"))


async def accept(tx: Tx, consumer: str, message_id: str, fingerprint: str, now: int) -> bool:
    """True the first time a consumer sees this message; a duplicate must have no effect."""
    return bool(await tx.rows(sql.accept, consumer=consumer, message_id=message_id, fingerprint=fingerprint, now=now))


async def prune(tx: Tx, floor: int, before: int, limit: int) -> list[int]:
    """Forget a batch of the oldest; returns when each was received."""
    return sorted(row["received_at"] for row in await tx.rows(sql.prune, floor=floor, before=before, limit=limit))

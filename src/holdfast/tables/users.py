"""The turn of one user: what is counted under it stays as it was counted until the transaction ends."""

from __future__ import annotations

from pathlib import Path

from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements

sql = load_statements(Path(__file__).with_suffix(".sql"))


async def lock(tx: Tx, name: str) -> None:
    """Wait for the transactions of this user that came before."""
    await tx.rows(sql.lock, name=name)

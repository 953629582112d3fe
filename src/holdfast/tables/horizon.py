"""What keeps PostgreSQL from removing old versions of our rows, and how many there are. SQLite keeps none."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch

sql = load_statements(Path(__file__).with_suffix(".sql"))
TABLES = ("holdfast_jobs", "holdfast_job_events", "holdfast_outbox", "holdfast_effects", "holdfast_calls")
"""Those that every job writes to."""


class Horizon(NamedTuple):
    """Who holds it and for how long, and the dead versions that lie behind it. `what` is '' if nobody does."""

    what: str = ""
    name: str = ""
    pid: int | None = None
    open_s: float = 0.0
    dead_versions: int = 0


NOBODY = Horizon()


async def read(tx: Tx) -> Horizon:
    if tx.dialect == "sqlite":
        return NOBODY
    (dead,) = await tx.rows(sql.dead_versions, tables=batch.ids(TABLES))
    held = await tx.rows(sql.holder)
    if not held:
        return Horizon(dead_versions=dead["versions"])
    (row,) = held
    return Horizon(row["what"], row["name"] or "", row["pid"], row["open_s"] or 0.0, dead["versions"])

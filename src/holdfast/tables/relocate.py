"""Jobs that stand where the loaded code does not look: in queues that no kind waits in, and in line for turns that
nobody takes. Functions named as the statements in `relocate.sql`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from holdfast.stores.seam import Tx
from holdfast.stores.statement import load_statements
from holdfast.tables import batch

sql = load_statements(Path(__file__).with_suffix(".sql"))
BEFORE_ALL = ""
"""No queue's name comes before it."""


async def queues(tx: Tx, known: Iterable[str]) -> set[str]:
    """Some of the queues in which queued jobs stand and that are not known; none if there is none."""
    rows = await tx.rows(sql.queues, known=batch.ids([BEFORE_ALL, *known]))
    return {name for row in rows for name in (row["due"], row["later"], row["in_line"]) if name is not None}


async def bring_home(tx: Tx, queue: str, homes: Mapping[str, str], limit: int, now: int) -> list[str]:
    """Move up to `limit` queued jobs of each sort from this queue to that of their kind; return the queue of each."""
    moved = {kind: [home] for kind, home in homes.items()}
    rows = await tx.rows(sql.bring_home, queue=queue, homes=batch.keyed(moved), limit=limit, now=now)
    return [row["queue"] for row in rows]


async def let_go(
    tx: Tx, queue: str, priority: int, stages: Mapping[str, str | None], limit: int, now: int, floor: int
) -> int:
    """Let up to `limit` jobs at these stages go that wait for a turn; return how many did."""
    providers = batch.keyed({stage: [provider] for stage, provider in stages.items()})
    given = {"queue": queue, "priority": priority, "stages": providers, "limit": limit, "now": now, "floor": floor}
    return len(await tx.rows(sql.let_go, **given))

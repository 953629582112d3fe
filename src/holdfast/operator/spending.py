"""What the calls to providers cost: by day, provider and kind of job, for the report and for whoever pays."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from holdfast.kernel.kernel import Kernel
from holdfast.tables import calls

DAY_MS = 86_400_000


async def spending(kernel: Kernel, since: int) -> list[dict[str, Any]]:
    """Every day's calls since a moment, the newest day first; days are UTC's. A job that was pruned has no kind."""
    async with kernel.store.reading() as tx:
        rows = await calls.spending(tx, since)
    return [
        {
            "day": datetime.fromtimestamp(row.day * DAY_MS / 1_000, UTC).date().isoformat(),
            "provider": row.provider,
            "kind": row.kind,
            # PostgreSQL sums whole numbers into decimals.
            **{name: int(getattr(row, name)) for name in ("calls", "failed", "cost_micros", "duration_ms")},
        }
        for row in rows
    ]

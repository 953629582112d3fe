"""Holdfast's side of the bench: one task a call, its figures as one line of JSON."""

from __future__ import annotations

import asyncio
import sys

from bench.runs import enqueueing, picking_up, working
from bench.runs.kernels import CALLERS, CONCURRENCY
from bench.stopwatch import tell
from holdfast.kernel.kernel import Tuning

SETTINGS = (
    f"concurrency {CONCURRENCY}, groups of {Tuning().claim_batch}, two streams on PostgreSQL; "
    f"enqueue x{CALLERS} shares commits; every other setting as shipped; asyncio's own loop"
)
TASKS = working.TASKS | enqueueing.TASKS | picking_up.TASKS


def main(task: str, count: int) -> None:
    if task == "settings":
        print(SETTINGS)
    else:
        tell(asyncio.run(TASKS[task](count)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

"""Holdfast's side of the bench: one task a call, its figures as one line of JSON."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module

from bench.stopwatch import tell

# By name, so that a task's memory is not that of what other tasks import.
PLACES = {
    "working": ("noop", "noop2", "share", "three"),
    "aside": ("threads", "threads_loop", "threads_block", "processes"),
    "enqueueing": ("enqueue32", "bulk", "inside"),
    "picking_up": ("pickup", "pickup_sqlite"),
    "depth": ("depth",),
    "held": ("held",),
    "steady": ("steady",),
    "history": ("history",),
    "querying": ("querying",),
    "embedded": ("embedded",),
    "memory": ("idle", "growth"),
    "publishing": ("relay",),
    "posting": ("post",),
    "grading": ("callback",),
    "converting": ("convert",),
    "uploading": ("upload",),
}


def settings() -> str:
    from bench.runs.aside_floor import CALLS_AT_ONCE
    from bench.runs.kernels import CALLERS, CONCURRENCY
    from holdfast.kernel.kernel import Tuning

    return (
        f"concurrency {CONCURRENCY} ({CALLS_AT_ONCE} for stages that block), groups of {Tuning().claim_batch}, "
        f"two streams on PostgreSQL; enqueue x{CALLERS} shares commits; every other setting as shipped; "
        "asyncio's own loop"
    )


def main(task: str, count: int) -> None:
    if task == "settings":
        print(settings())
        return
    place = next(place for place, tasks in PLACES.items() if task in tasks)
    tell(asyncio.run(import_module(f"bench.runs.{place}").TASKS[task](count)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

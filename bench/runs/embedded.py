"""The embedded database end to end: accepted, run and settled in one process, on SQLite with synchronous=FULL."""

from __future__ import annotations

from bench.runs.kernels import Noop, audited, kernel_over
from bench.runs.working import drained
from bench.stopwatch import Figures, Stopwatch, folder
from holdfast import Client


async def embedded(count: int) -> Figures:
    async with kernel_over(url=f"sqlite:///{folder() / 'embedded.db'}") as kernel:
        watch = Stopwatch()
        await Client(kernel).enqueue_many(Noop, ({"n": n} for n in range(count)))
        await drained(kernel, count, count)
        return await audited(kernel, watch.stop(count))


TASKS = {"embedded": embedded}

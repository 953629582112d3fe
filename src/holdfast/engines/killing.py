"""The sudden death of a worker, inside of a process that lives on."""

from __future__ import annotations

import asyncio

from holdfast.engines.worker import Worker


def kill_worker(worker: Worker, running: asyncio.Task[None]) -> None:
    """End a worker on the spot, and `running`, the task of its `run`: attempts stop, nothing is given back
    and no word is left. Its leases end by themselves."""
    for attempt in list(worker._running.values()):
        worker._abandon(attempt)
    worker._finished.clear()
    if worker._renewal is not None:
        worker._renewal.stop()
    running.cancel()


def successor_of(worker: Worker) -> Worker:
    """A worker as this one was set up, under a name of its own."""
    return Worker(
        worker.kernel,
        concurrency=worker.concurrency,
        streams=worker.streams,
        grace_s=worker.grace_s,
        queues=worker.queues,
    )

"""The jobs whose end somebody outside of jobs waits for.

    whoever waits: asks to be told (a ring that names the job) -> looks -> sleeps until `ended:<id>` is rung
    whoever works: has heard it, and rings when such a job ends

What was asked for is kept in memory only, so that an end nobody waits for rings nothing. A ring may be lost, or come
too late: whoever waits also looks by itself (`status.wait_for_end`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.stores.seam import TICKET, Listener

if TYPE_CHECKING:
    from holdfast.kernel.kernel import Kernel

CHANNEL = "awaited"
KEPT_MS = 60_000
JOBS_MAX = 10_000


class Awaited:
    """Ids of jobs, each for a while and up to a number."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until: dict[str, int] = {}

    def note(self, job_id: str, now: int) -> None:
        if len(self._until) >= JOBS_MAX:
            self._until = {known: until for known, until in self._until.items() if until > now}
        if len(self._until) < JOBS_MAX:
            self._until[job_id] = now + KEPT_MS

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._until

    def __len__(self) -> int:
        return len(self._until)


def ended_channel(job_id: str) -> str:
    """What is rung when a job has ended that somebody waits for."""
    return f"ended:{job_id}"


def listen_for_waits(kernel: Kernel) -> Listener:
    """Note, until the bell is closed, which jobs are waited for: a process that ends jobs then rings for them."""

    def note(ticket: str) -> bool:
        kernel.awaited.note(ticket, kernel.now())
        return False

    return kernel.store.listen(CHANNEL, note)


async def ask_to_be_told(kernel: Kernel, job_id: str) -> None:
    """Ask the workers of this process, and those that hear of it, to ring when the job ends."""
    kernel.awaited.note(job_id, kernel.now())
    async with kernel.store.transaction() as tx:
        await tx.notify(CHANNEL + TICKET + job_id)

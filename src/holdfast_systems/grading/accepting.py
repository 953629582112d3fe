"""Lets submissions that arrive at the same time share a statement and its commit; each caller waits for its own.

PostgreSQL only: SQLite has one writer anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.kit import Gather, Kernel
from holdfast_systems.grading import submissions
from holdfast_systems.grading.submissions import Arrival


class Accepting:
    """The submissions of one process on their way into the database."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._gather: Gather[Arrival, bool] = Gather(self._write)

    async def put(self, arrival: Arrival) -> bool:
        """True once it is durable; False if its key was taken, and then nothing of it was written."""
        return await self._gather.put(arrival)

    async def _write(self, arrivals: Sequence[Arrival]) -> list[bool | Exception]:
        """One INSERT of keys, submissions and messages."""
        async with self._kernel.store.single_statement() as tx:
            won = await submissions.create(tx, arrivals, self._kernel.now())
        return [arrival.new.id in won for arrival in arrivals]

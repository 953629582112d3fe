"""Lets submissions that arrive at the same time share a statement and its commit; each caller waits for its own.

    caller --> waiting --\\
    caller --> waiting ----> one INSERT of keys, submissions and messages --commit--> every caller's answer
    caller --> waiting --/

While one commit is under way others gather for the next, so nobody waits for company. PostgreSQL only: SQLite has one
writer anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.errors import StoreUnavailable
from holdfast.kit import Kernel
from holdfast_systems.grading import submissions
from holdfast_systems.grading.submissions import Arrival

ROWS_MAX = 200


@dataclass(slots=True)
class _Waiting:
    arrival: Arrival
    answer: asyncio.Future[bool]


@dataclass(slots=True)
class Accepting:
    """The submissions of one process on their way into the database."""

    kernel: Kernel
    _waiting: list[_Waiting] = field(default_factory=list)
    _writing: asyncio.Task[None] | None = None

    async def put(self, arrival: Arrival) -> bool:
        """True once it is durable; False if its key was taken, and then nothing of it was written."""
        one = _Waiting(arrival, asyncio.get_running_loop().create_future())
        self._waiting.append(one)
        if self._writing is None:
            # A task of its own: a caller that goes away takes nobody else's write along.
            self._writing = asyncio.get_running_loop().create_task(self._write_all())
        return await one.answer

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                part, self._waiting = self._waiting[:ROWS_MAX], self._waiting[ROWS_MAX:]
                await self._write([one for one in part if not one.answer.done()])
        finally:
            self._writing = None

    async def _write(self, part: Sequence[_Waiting]) -> None:
        """Write them together. One that cannot be written must not fail its neighbours: then each is written alone."""
        if not part:
            return
        try:
            async with self.kernel.store.alone() as tx:
                won = await submissions.create(tx, [one.arrival for one in part], self.kernel.now())
        except Exception as error:
            if len(part) > 1 and not isinstance(error, StoreUnavailable):
                for one in part:
                    await self._write([one])
                return
            for one in part:
                if not one.answer.done():
                    one.answer.set_exception(error)
        else:
            for one in part:
                if not one.answer.done():
                    one.answer.set_result(one.arrival.new.id in won)

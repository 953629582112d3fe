"""Lets tasks that write the same kind of thing at the same time share one commit; each waits for its own answer.

    task --> waiting --\\
    task --> waiting ----> one write of them all --commit--> every task's answer
    task --> waiting --/

While one commit is under way others gather for the next, so nobody waits for company.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from holdfast.errors import StoreDown

if TYPE_CHECKING:
    from holdfast.kernel.kernel import Kernel

Given = TypeVar("Given")
Got = TypeVar("Got")
Write = Callable[[Sequence[Given]], Awaitable[Sequence[Got | Exception]]]
ROWS_MAX = 200


class Gather(Generic[Given, Got]):
    """What waits for one kind of write. `write` answers each thing it is given, in order: with an exception where that
    one alone was refused. If it raises, nothing was written (or nobody knows)."""

    __slots__ = ("_rows_max", "_waiting", "_write", "_writing")

    def __init__(self, write: Write[Given, Got], rows_max: int = ROWS_MAX) -> None:
        self._write = write
        self._rows_max = rows_max
        self._waiting: list[tuple[Given, asyncio.Future[Got]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def put(self, given: Given) -> Got:
        """Write this one along with the others that wait; return once its commit is durable. Whoever is cancelled
        before its write began takes it back."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Got] = loop.create_future()
        self._waiting.append((given, answer))
        if self._writing is None:
            # A task of its own: a caller that goes away takes nobody else's write along.
            self._writing = loop.create_task(self._write_all())
        return await answer

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                part, self._waiting = self._waiting[: self._rows_max], self._waiting[self._rows_max :]
                await self._write_some([entry for entry in part if not entry[1].done()])
        finally:
            self._writing = None

    async def _write_some(self, part: Sequence[tuple[Given, asyncio.Future[Got]]]) -> None:
        """One that cannot be written must not fail its neighbours: then each is written alone."""
        if not part:
            return
        got: Sequence[Got | Exception]
        try:
            got = await self._write([given for given, _ in part])
        except Exception as error:
            if len(part) > 1 and not isinstance(error, StoreDown):
                for entry in part:
                    await self._write_some([entry])
                return
            got = [error] * len(part)
        for (_, answer), one_got in zip(part, got, strict=True):
            if answer.done():
                continue
            if isinstance(one_got, Exception):
                answer.set_exception(one_got)
            else:
                answer.set_result(one_got)


async def write_together(
    kernel: Kernel, write: Callable[[Kernel, Sequence[Given]], Awaitable[Sequence[Got | Exception]]], given: Given
) -> Got:
    """Hand `given` to `write`, with whatever other tasks of this process hand to it at the same time."""
    gather = kernel.gathers.get(write)
    if gather is None:
        gather = kernel.gathers[write] = Gather(partial(write, kernel))
    got: Got = await gather.put(given)
    return got

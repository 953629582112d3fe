"""Enqueues many jobs inside the caller's own open transaction: all of them exist if it commits, none if not."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import Any, TypeVar

from holdfast.errors import InvalidInput
from holdfast.kernel.app import Job
from holdfast.kernel.enqueue import foreign_tx
from holdfast.kernel.submit import prepare, submit_in
from holdfast.stores.clock import SystemClock, SystemDice, uuid7s

In = TypeVar("In")
PART = 1_000
_clock = SystemClock()
_dice = SystemDice()


class EnqueuedMany:
    """The answer of `enqueue_many`: ids in the order of the inputs, at once for a sync connection, else by awaiting."""

    def __init__(self, work: Coroutine[Any, Any, list[str]], *, sync: bool) -> None:
        self._work: Coroutine[Any, Any, list[str]] | None = work
        self._ids: list[str] | None = None
        if sync:
            self._ids, self._work = _finish(work), None

    @property
    def ids(self) -> list[str]:
        if self._ids is None:
            raise InvalidInput("This enqueue is on an async connection; await it before asking for its ids.")
        return self._ids

    def __await__(self) -> Generator[Any, Any, list[str]]:
        if self._work is not None:
            work, self._work = self._work, None
            self._ids = yield from work.__await__()
        return self.ids


def enqueue_many(
    connection: Any,
    job: type[Job[In]],
    inputs: Iterable[In],
    *,
    key: Callable[[In], str] | None = None,
    **options: Any,
) -> EnqueuedMany:
    """Write a job for each input in the connection's open transaction, a thousand rows to a statement.

    `key` makes each one's key from its input; one that is known already gives the id of the job that it made. Further
    options as for `enqueue`. Input that does not fit is refused before anything is written."""
    tx = foreign_tx(connection)
    now = _clock.now_ms()
    orders = [
        prepare(job.__holdfast__, one, job_id=job_id, now=now, key=key(one) if key else None, **options)
        for one, job_id in zip(inputs, uuid7s(lambda: now, _dice), strict=False)
    ]

    async def write() -> list[str]:
        ids: list[str] = []
        for start in range(0, len(orders), PART):
            ids += await submit_in(tx, orders[start : start + PART], now)
        return ids

    return EnqueuedMany(write(), sync=not tx.is_async)


def _finish(work: Coroutine[Any, Any, list[str]]) -> list[str]:
    """Run a coroutine that never waits, because everything it awaits answers at once."""
    try:
        work.send(None)
    except StopIteration as done:
        return list(done.value)
    raise AssertionError("a sync connection cannot wait")

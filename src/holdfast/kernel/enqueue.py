"""Enqueues inside the caller's own open transaction, whatever library holds it (see `foreign`).

Nothing is committed here: the job exists if and only if the caller commits.

    enqueue(connection, SendDigest, order, key="digest:17")            # a sync connection: done when it returns
    await enqueue(session, SendDigest, order, key="digest:17")         # an async one: await it
    await enqueue_many(session, SendDigest, orders)                    # all of them, or none
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from typing import Any, Generic, Protocol, TypeVar, Unpack, overload

from holdfast.errors import InvalidInput
from holdfast.kernel.app import Job, kind_of
from holdfast.kernel.compose.foreign import foreign_tx
from holdfast.kernel.declare.options import Options, check_options, each_of
from holdfast.kernel.submit import check_keys, key_of, name_place, order_of, submit_in
from holdfast.stores.clock import SystemClock, SystemDice, uuid7, uuid7s

In = TypeVar("In")
T = TypeVar("T")
PART = 1_000
"""Rows that `enqueue_many` writes in one statement."""
_clock = SystemClock()
_dice = SystemDice()
_log = logging.getLogger("holdfast")


class AsyncConnection(Protocol):
    """A connection or session whose statements are awaited."""

    @property
    def execute(self) -> Callable[..., Awaitable[Any]]: ...


class Pending(Generic[T]):
    """Something to write on an async connection, by awaiting it. One that is thrown away without having been awaited
    says so, because nothing is written then."""

    def __init__(self, what: str, work: Coroutine[Any, Any, T]) -> None:
        self._what = what
        self._work: Coroutine[Any, Any, T] | None = work
        self._steps: Generator[Any, Any, T] | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        if self._work is None:
            raise InvalidInput(f"{self._what} was awaited before; keep what it gave.")
        work, self._work = self._work, None
        return (yield from work.__await__())

    def __str__(self) -> str:
        raise InvalidInput(f"{self._what} is on an async connection; await it before you ask for an id.")

    # As a coroutine it may be given to a task, and a checker finds the forgotten `await`.

    def send(self, value: None) -> object:
        return self._begun().send(value)

    def throw(self, error: BaseException) -> object:
        return self._begun().throw(error)

    def close(self) -> None:
        if self._work is not None:
            self._work.close()
            self._work = None

    def _begun(self) -> Generator[Any, Any, T]:
        self._steps = self._steps or self.__await__()
        return self._steps

    def __del__(self) -> None:
        if self._work is None:
            return
        self.close()
        if self._steps is None:
            problem = f"{self._what} was never awaited: nothing is enqueued. Write `await` before it."
            _log.error(problem)
            warnings.warn(problem, RuntimeWarning, stacklevel=2, source=self)


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, because everything it awaits answers at once."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise AssertionError("a sync connection cannot wait")


@overload
def enqueue(  # type: ignore[overload-overlap]
    connection: AsyncConnection,
    job: type[Job[In]],
    input: In,
    *,
    key: str | None = None,
    autocommit: bool = False,
    **options: Unpack[Options],
) -> Coroutine[Any, Any, str]: ...
@overload
def enqueue(
    connection: object,
    job: type[Job[In]],
    input: In,
    *,
    key: str | None = None,
    autocommit: bool = False,
    **options: Unpack[Options],
) -> str: ...
def enqueue(
    connection: Any,
    job: type[Job[In]],
    input: In,
    *,
    key: str | None = None,
    autocommit: bool = False,
    **options: Unpack[Options],
) -> Any:
    """Write the job in the connection's open transaction, and give its id: at once on a sync connection, by awaiting on
    an async one.

    The same `key` and payload is the same job; with another payload it is an `IdempotencyConflict`. A connection on
    which nothing is begun, or a pool, is refused: with `autocommit` the job is committed at once. Further options:
    `delay_s`, `priority`, `deadline_s`, `owner`, `trace` (see `Options`)."""
    tx = foreign_tx(connection, kind_of(job).schema, autocommit=autocommit)
    now = _clock.now_ms()
    order = order_of(job, input, options, job_id=uuid7(now, _dice), now=now, key=key)

    async def write() -> str:
        return (await submit_in(tx, [order], now))[0]

    return Pending(f"The enqueue of '{order.row.kind}'", write()) if tx.is_async else finish(write())


@overload
def enqueue_many(  # type: ignore[overload-overlap]
    connection: AsyncConnection,
    job: type[Job[In]],
    inputs: Iterable[In],
    *,
    key: Callable[[In], str] | None = None,
    autocommit: bool = False,
    **options: Unpack[Options],
) -> Coroutine[Any, Any, list[str]]: ...
@overload
def enqueue_many(
    connection: object,
    job: type[Job[In]],
    inputs: Iterable[In],
    *,
    key: Callable[[In], str] | None = None,
    autocommit: bool = False,
    **options: Unpack[Options],
) -> list[str]: ...
def enqueue_many(
    connection: Any,
    job: type[Job[In]],
    inputs: Iterable[In],
    *,
    key: Callable[[In], str] | None = None,
    autocommit: bool = False,
    **options: Unpack[Options],
) -> Any:
    """Write a job for each input in the connection's open transaction, a thousand rows to a statement, and give their
    ids in order: at once on a sync connection, by awaiting on an async one.

    `key` makes each one's key from its input; one that is known already gives the id of the job that it made. Further
    options as for `enqueue`; with `autocommit` each statement is committed by itself. Input that does not fit is
    refused before anything is written."""
    check_keys(key)
    check_options(options)
    tx = foreign_tx(connection, kind_of(job).schema, autocommit=autocommit)
    now = _clock.now_ms()
    values = zip(each_of(kind_of(job).name, inputs), uuid7s(lambda: now, _dice), strict=False)
    orders = list(
        name_place(
            order_of(job, each, options, job_id=job_id, now=now, key=key_of(key, each) if key else None)
            for each, job_id in values
        )
    )

    async def write() -> list[str]:
        ids: list[str] = []
        for start in range(0, len(orders), PART):
            ids += await submit_in(tx, orders[start : start + PART], now + start // PART)
        return ids

    return Pending(f"The enqueue_many of '{kind_of(job).name}'", write()) if tx.is_async else finish(write())

"""Enqueues many jobs inside the caller's own open transaction: all of them exist if it commits, none if not."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar, Unpack, overload

from holdfast.kernel.app import Job, kind_of
from holdfast.kernel.compose.foreign import foreign_tx
from holdfast.kernel.declare.options import Options, each_of
from holdfast.kernel.enqueue import AsyncConnection, Pending
from holdfast.kernel.submit import check_keys, name_place, order_of, submit_in
from holdfast.stores.clock import SystemClock, SystemDice, uuid7s

In = TypeVar("In")
PART = 1_000
_clock = SystemClock()
_dice = SystemDice()


class EnqueuedMany(Pending[list[str]]):
    """The answer of `enqueue_many`: ids in the order of the inputs, at once for a sync connection, else by awaiting."""

    @property
    def ids(self) -> list[str]:
        return self.written()


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
) -> EnqueuedMany: ...
def enqueue_many(
    connection: Any,
    job: type[Job[In]],
    inputs: Iterable[In],
    *,
    key: Callable[[In], str] | None = None,
    autocommit: bool = False,
    **options: Unpack[Options],
) -> Any:
    """Write a job for each input in the connection's open transaction, a thousand rows to a statement.

    `key` makes each one's key from its input; one that is known already gives the id of the job that it made. Further
    options as for `enqueue`; with `autocommit` each statement is committed by itself. Input that does not fit is
    refused before anything is written."""
    check_keys(key)
    tx = foreign_tx(connection, kind_of(job).schema, autocommit=autocommit)
    now = _clock.now_ms()
    values = zip(each_of(kind_of(job).name, inputs), uuid7s(lambda: now, _dice), strict=False)
    orders = list(
        name_place(
            order_of(job, each, options, job_id=job_id, now=now, key=key(each) if key else None)
            for each, job_id in values
        )
    )

    async def write() -> list[str]:
        ids: list[str] = []
        for start in range(0, len(orders), PART):
            ids += await submit_in(tx, orders[start : start + PART], now + start // PART)
        return ids

    return EnqueuedMany(f"The enqueue_many of '{kind_of(job).name}'", write(), sync=not tx.is_async)

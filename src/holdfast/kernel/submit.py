"""Accepting work. A job, its first event and its wake-up are one write, in a transaction the caller may own."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar, Unpack

from holdfast.core.job import PRIORITIES
from holdfast.core.turns import Turns
from holdfast.errors import IdempotencyConflict, InvalidInput, StoreConflict
from holdfast.kernel.app import Job, kind_of
from holdfast.kernel.declare.options import Options, check_options, check_texts, check_times, each_of
from holdfast.kernel.declare.search_terms import Term, terms_of
from holdfast.kernel.gather import write_together
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.kinds import JobKind
from holdfast.kernel.observe.trace import traceparent
from holdfast.kernel.observe.watch import Watch
from holdfast.kernel.sealing import seal_input
from holdfast.stores.clock import uuid7s
from holdfast.stores.seam import LoadingTx, Tx
from holdfast.tables import new_jobs, search, secrets
from holdfast.tables.new_jobs import NewJob
from holdfast.tables.secrets import NewSecret

BULK_ROWS = 10_000
BULK_BYTES = 8 * 1024 * 1024
"""A commit of a bulk ends at whichever of the two comes first; the second counts inputs, by their characters."""
BULK_ROWS_FIRST = 1_000
"""The first commit is small, each further one twice as large, so that the database has something to do soon."""
ROWS_AT_A_TIME = 200
"""So many are made before others have their turn on the loop."""
LOAD_ROWS_MIN = 100
"""From here on the database's own bulk load is faster than one statement."""


In = TypeVar("In")


class JobToEnqueue(NamedTuple):
    """One job to enqueue, ready to be written. Its id is fixed before the first try, so that a retry is harmless."""

    id: str
    row: NewJob
    secrets: tuple[NewSecret, ...] = ()
    terms: tuple[Term, ...] = ()
    """What it is to be found by."""

    @property
    def is_plain(self) -> bool:
        """Whether it is its own row and nothing else."""
        return not (self.secrets or self.terms)


def order_of(
    job: type[Job[Any]], input: object, options: Options, *, job_id: str, now: int, key: str | None = None
) -> JobToEnqueue:
    """One job of a declared class, with options as a caller wrote them."""
    check_options(options)
    return prepare(kind_of(job), input, job_id=job_id, now=now, key=key, **options)


def prepare(
    kind: JobKind,
    input: object,
    *,
    job_id: str,
    now: int,
    key: str | None = None,
    delay_s: float = 0.0,
    priority: int | None = None,
    deadline_s: float | None = None,
    owner: str | None = None,
    trace: str | None = None,
) -> JobToEnqueue:
    """Check the input and make the row. Refuses, in one sentence, before anything is written."""
    payload = kind.dump_input(input)
    if not (key is owner is trace is None):
        check_texts(kind.name, key, owner, trace)
    level = kind.priority if priority is None else priority
    if level not in PRIORITIES or type(level) is bool:
        raise InvalidInput(f"The priority {level} must be one of {', '.join(map(str, PRIORITIES))}.")
    limit_s = kind.deadline_s if deadline_s is None else deadline_s
    if delay_s != 0 or limit_s is not None:
        check_times(delay_s, limit_s)
    stored, sealed = seal_input(kind.sealer, kind.seals, payload) if kind.seals else (payload, ())
    first = kind.stages[0]
    row = NewJob(
        kind.name,
        kind.queue,
        first.name,
        first.plan.provider,
        int(level),
        kind.version,
        now + int(delay_s * 1_000),
        None if limit_s is None else now + int(limit_s * 1_000),
        key,
        None if key is None else hashlib.sha256(payload.encode()).hexdigest(),
        owner,
        trace or traceparent(),
        None,
        None if kind.turns is None else _fair_key(kind, kind.turns, input, owner),
        stored,
    )
    return JobToEnqueue(job_id, row, sealed, terms_of(kind.search, stored) if kind.search else ())


def _fair_key(kind: JobKind, turns: Turns, input: object, owner: str | None) -> str:
    try:
        return turns.key_of(kind.name, input, owner)
    except ValueError as error:
        raise InvalidInput(f"The input of '{kind.name}' does not fit: {error}.") from None


async def submit_in(tx: Tx, orders: Sequence[JobToEnqueue], now: int, watch: Watch | None = None) -> list[str]:
    """Write the orders in an open transaction; return each one's job id. `watch` counts them once it has committed.

    A key that was used before gives the id of the job it made; with another payload it is an `IdempotencyConflict`,
    and the caller's transaction should be rolled back."""
    added = await new_jobs.insert(tx, {order.id: order.row for order in orders}, now)
    await secrets.put(tx, {order.id: order.secrets for order in orders if order.secrets and order.id in added}, now)
    await search.put(tx, {order.id: order.terms for order in orders if order.terms and order.id in added})
    if watch is not None:
        tx.after_commit(lambda: _count(watch, [order for order in orders if order.id in added]))
    return [order.id if order.id in added else await _earlier(tx, order) for order in orders]


def _count(watch: Watch, orders: Sequence[JobToEnqueue]) -> None:
    for kind, number in Counter(order.row.kind for order in orders).items():
        watch.count("jobs_created", number, kind=kind)


async def _earlier(tx: Tx, order: JobToEnqueue) -> str:
    key = order.row.job_key
    if key is None:
        return order.id  # our own earlier write: the id was taken by an ambiguous commit of this very order
    known = await new_jobs.by_key(tx, order.row.kind, key)
    assert known is not None, "an insert that conflicts has found a row"
    # Inputs of two versions cannot be compared: there the key alone says that it is the same job.
    if known.version == order.row.version and known.fingerprint != order.row.fingerprint:
        raise IdempotencyConflict(key)
    return str(known.id)


async def submit(
    kernel: Kernel, job: type[Job[In]], input: In, *, key: str | None = None, **options: Unpack[Options]
) -> str:
    """Accept one job and return its id once it is durable. Callers at the same time share a commit."""
    order = order_of(job, input, options, job_id=kernel.new_id(), now=kernel.now(), key=key)
    return await write_together(kernel, submit_orders, order)


async def submit_many(
    kernel: Kernel,
    job: type[Job[In]],
    inputs: Iterable[In],
    *,
    key: Callable[[In], str] | None = None,
    **options: Unpack[Options],
) -> list[str]:
    """Accept a job for each input, in commits of thousands. Inputs are read as they are needed: checking some overlaps
    with writing others. `key` makes each one's key from its input."""
    check_keys(key)
    check_options(options)
    values = each_of(kind_of(job).name, inputs)
    orders = _alike(kernel, job, values, options) if key is None else _keyed(kernel, job, values, key, options)
    return await submit_orders(kernel, name_place(orders))


def name_place(orders: Iterable[JobToEnqueue], first: int = 1) -> Iterator[JobToEnqueue]:
    """The orders of many inputs; one that is refused is named by its place among them."""
    place = first
    try:
        for order in orders:
            yield order
            place += 1
    except InvalidInput as error:
        raise InvalidInput(f"Input number {place} of many: {error}") from None


def check_keys(key: object) -> None:
    """Refuse one key for many jobs."""
    if key is not None and not callable(key):
        raise InvalidInput("A key is for one job; give each of many its own: key=lambda input: ...")


def key_of(key: Callable[[In], str], input: In) -> str:
    """One of many keys. None would be no key at all, and the job would be there again with every try."""
    text = key(input)
    if text is None:
        raise InvalidInput("the function of the keys returned None; it must return a text for each input.")
    return text


def _keyed(
    kernel: Kernel, job: type[Job[In]], inputs: Iterable[In], key: Callable[[In], str], options: Options
) -> Iterator[JobToEnqueue]:
    for each in inputs:
        yield order_of(job, each, options, job_id=kernel.new_id(), now=kernel.now(), key=key_of(key, each))


def _alike(kernel: Kernel, job: type[Job[In]], inputs: Iterable[In], options: Options) -> Iterator[JobToEnqueue]:
    """Orders that differ only in id, time and payload: the rest is prepared once a millisecond."""
    kind = kind_of(job)
    if kind.seals or kind.search:
        yield from (order_of(job, value, options, job_id=kernel.new_id(), now=kernel.now()) for value in inputs)
        return
    now = -1
    alike: tuple[Any, ...] = ()
    ids = uuid7s(lambda: now, kernel.dice)
    construct = tuple.__new__  # a named tuple's own way of making one takes three times as long
    for value in inputs:
        at = kernel.now()
        if at != now or kind.turns is not None:
            now, alike = at, order_of(job, value, options, job_id="", now=at).row[:-1]
        yield construct(JobToEnqueue, (next(ids), construct(NewJob, (*alike, kind.dump_input(value))), (), ()))


async def submit_orders(kernel: Kernel, orders: Iterable[JobToEnqueue]) -> list[str]:
    """Accept many jobs in commits of thousands. If one commit fails, those before it stand; trying again with the same
    orders is harmless."""
    if isinstance(orders, Sequence) and len(orders) <= BULK_ROWS_FIRST:
        return await _submit_part(kernel, orders) if orders else []
    left = iter(orders)
    parts: list[list[str]] = []
    making, failed = asyncio.Lock(), asyncio.Event()

    async def lane() -> None:
        while True:
            async with making:
                part = await _next_part(left, min(BULK_ROWS, BULK_ROWS_FIRST << min(len(parts), 10)))
                place = len(parts)
                parts.append([])
            if not part or failed.is_set():
                return
            try:
                parts[place] = await _submit_part(kernel, part)
            except BaseException:
                failed.set()  # the other lane shall not begin anything more
                raise

    # Two at a time: Python makes the rows of one while the database writes the other's.
    for outcome in await asyncio.gather(lane(), lane(), return_exceptions=True):
        if outcome is not None:
            raise outcome
    return [job_id for part in parts for job_id in part]


async def _next_part(left: Iterator[JobToEnqueue], rows: int) -> list[JobToEnqueue]:
    """The orders of one commit."""
    part: list[JobToEnqueue] = []
    size = 0
    for order in left:
        part.append(order)
        size += len(order.row.payload)
        if len(part) == rows or size >= BULK_BYTES:
            break
        if len(part) % ROWS_AT_A_TIME == 0:
            await asyncio.sleep(0)
    return part


async def _submit_part(kernel: Kernel, part: Sequence[JobToEnqueue]) -> list[str]:
    if not kernel.store.has_one_writer and all(order.is_plain for order in part):
        keyless = all(order.row.job_key is None for order in part)
        if keyless and len(part) >= LOAD_ROWS_MIN:
            try:
                return await _load(kernel, part)
            except StoreConflict:  # an ambiguous commit of these very orders has happened after all
                return await _write(kernel, part)
        if keyless or len(part) == 1:
            return await _write_alone(kernel, part)
    return await _write(kernel, part)


async def _load(kernel: Kernel, part: Sequence[JobToEnqueue]) -> list[str]:
    async with kernel.store.transaction() as tx:
        assert isinstance(tx, LoadingTx)
        await new_jobs.load(tx, [order[:2] for order in part], kernel.now())
        tx.after_commit(lambda: _count(kernel.watch, part))
        await kernel.failpoint("submit.before_commit")
    await kernel.failpoint("submit.after_commit")
    return [order.id for order in part]


async def _write_alone(kernel: Kernel, part: Sequence[JobToEnqueue]) -> list[str]:
    """Where no order could make the others be taken back, the statement is its own commit."""
    await kernel.failpoint("submit.before_commit")
    async with kernel.store.single_statement() as tx:
        ids = await submit_in(tx, part, kernel.now(), kernel.watch)
    await kernel.failpoint("submit.after_commit")
    return ids


async def _write(kernel: Kernel, part: Sequence[JobToEnqueue]) -> list[str]:
    async with kernel.store.transaction() as tx:
        ids = await submit_in(tx, part, kernel.now(), kernel.watch)
        await kernel.failpoint("submit.before_commit")
    await kernel.failpoint("submit.after_commit")
    return ids

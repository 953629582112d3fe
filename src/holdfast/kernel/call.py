"""Calls a provider: ask its breaker and limits, call within a timeout, record what came of it.

While the breaker is open nothing is called and nothing is spent: `ProviderHeld` sends the job back to the queue. Only
the provider's own faults count against it; a caller's mistake gives a trial permit back uncounted.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar, cast

from holdfast.core import breaker, rate
from holdfast.core.breaker import Admitted, Gate, Refused
from holdfast.core.budget import Standing
from holdfast.core.classify import classify
from holdfast.core.failure import Failure
from holdfast.core.given import BadValue
from holdfast.core.job import Claimed, clip_ms
from holdfast.core.provider import Provider
from holdfast.errors import BadDeclaration, CallError, LeaseLost, ProviderHeld, StoreDown
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.observe.trace import span
from holdfast.kernel.record import CallPermit, Cost, Report, record
from holdfast.kernel.running.eager import first_step, resume
from holdfast.stores.seam import Tx
from holdfast.tables import providers
from holdfast.tables.providers import ProviderRow

T = TypeVar("T")
HELD_RECHECK_MS = 1_000
# A process may be paused between its check of the lease and its first byte. What it can notice by itself, it notices.
STOOD_STILL_MS = 1_000
PLACE_SLACK_MS = 5_000
"""How long after a call's time limit its place comes free by itself, should its process have died."""


class CallResult(NamedTuple, Generic[T]):
    """One call that was made, and what came of it: `error` unless it went well."""

    started: int
    value: T | None
    error: CallError | None

    @property
    def failure(self) -> Failure | None:
        return None if self.error is None else self.error.failure

    def outcome(self) -> T:
        """What the provider answered; raises what it failed with."""
        if self.error is not None:
            raise self.error
        return cast(T, self.value)


Finish = Callable[[Report, CallResult[T]], Awaitable[CallResult[T]]]


async def call(
    kernel: Kernel,
    provider: Provider,
    run: Callable[[], Awaitable[T]],
    *,
    job: Claimed | None = None,
    timeout_s: float | None = None,
    cost: Callable[[T], Cost] | None = None,
    finish: Finish[T] | None = None,
) -> T:
    """Make one call, and record it. `finish` records it instead, and has the last word on what came of it."""
    permit = await admit(kernel, provider, place_ms(provider, timeout_s), job)
    admitted_at = kernel.now()

    async def calling() -> T:
        if kernel.now() - admitted_at > STOOD_STILL_MS:
            await look_again(kernel, provider, permit, job)
        answer = run()
        if not inspect.isawaitable(answer):
            raise BadDeclaration(_not_async(provider, answer))
        return await answer

    try:
        result = await make_call(kernel, provider, calling, job=job, timeout_s=timeout_s)
    except ProviderHeld:
        await give_back(kernel, provider, permit)
        raise
    spent, mistake = _spent(cost, result)
    report = Report(provider, permit, job, result.started, result.failure, spent)
    if finish is None:
        await record(kernel, report)
    else:
        result = await finish(report, result)
    if result.error is not None:
        result.error.standing = standing_of(provider, permit, result.error.failure)
    if mistake is not None:
        raise mistake
    return result.outcome()


def _spent(cost: Callable[[T], Cost] | None, result: CallResult[T]) -> tuple[Cost, Exception | None]:
    """What a call cost, or what went wrong in a handler's function that should say so: it is raised when the call is
    recorded, and its answer kept, for that was paid."""
    if cost is None or result.error is not None:
        return Cost(), None
    try:
        spent = cost(result.outcome())
    except Exception as error:
        why = f"The cost of a call raised {type(error).__name__}: {error}; the call itself went well"
        return Cost(), BadValue(f"{why}, and is not repeated for that.")
    if isinstance(spent, Cost):
        return spent, None
    return Cost(), BadValue(f"The cost of a call came to {spent!r}: write cost=lambda answer: Cost(...).")


def _not_async(provider: Provider, answer: object) -> str:
    return (
        f"A call of '{provider.name}' was given a function that is not async: it returned a {type(answer).__name__} "
        "instead of something to await. Write async def, or lambda: asyncio.to_thread(function)."
    )


def standing_of(provider: Provider, permit: CallPermit, failure: Failure) -> Standing:
    """What deciding needs to know of a call that failed, after it was recorded."""
    return Standing(provider.name, permit.generation, failure.faults, hold_max_ms(provider))


def hold_max_ms(provider: Provider) -> int | None:
    return None if provider.hold_max_s is None else round(provider.hold_max_s * 1_000)


async def make_call(
    kernel: Kernel,
    provider: Provider,
    run: Callable[[], Awaitable[T]],
    *,
    job: Claimed | None,
    timeout_s: float | None,
    effect: str | None = None,
) -> CallResult[T]:
    """Make one call that was admitted, within its time. Who makes it records it. `effect`: the key of what it brings
    about."""
    await kernel.failpoint("call.before")
    started = kernel.now()
    _refuse_before(kernel, provider, None, started)
    limit_ms = clip_ms(int((timeout_s or provider.timeout_s) * 1_000), job.deadline_at if job else None, started)
    limit: asyncio.Timeout | None = None
    try:
        with span(f"call {provider.name}"):
            calling = kernel.call_through(provider, run, effect)
            ended, value = first_step(calling)
            if not ended:
                limit = asyncio.timeout(limit_ms / 1_000)
                async with limit:
                    value = await resume(calling, value)
    except (LeaseLost, ProviderHeld, StoreDown):  # nothing was called
        raise
    except Exception as error:
        cut_after_ms = limit_ms if limit is not None and limit.expired() else None
        return CallResult(started, None, _failed(provider, error, kernel.now(), cut_after_ms))
    await kernel.failpoint("call.after")
    return CallResult(started, value, None)


def _failed(provider: Provider, error: Exception, now_ms: int, cut_after_ms: int | None) -> CallError:
    """The failed call, as the provider's own `classify` or else Holdfast judges it."""
    if isinstance(error, CallError) and provider.classify is None:
        return error
    why = classify(error, now_ms=now_ms, own=provider.classify)
    if cut_after_ms is not None and isinstance(error, TimeoutError):
        why = replace(why, message=f"The provider '{provider.name}' did not answer within {cut_after_ms / 1_000:g} s.")
    failed = CallError(why)
    failed.__cause__ = error
    return failed


def place_ms(provider: Provider, timeout_s: float | None) -> int:
    """For how long a call takes its place among those that may run at once."""
    return int((timeout_s or provider.timeout_s) * 1_000) + PLACE_SLACK_MS


async def admit(kernel: Kernel, provider: Provider, place_for_ms: int, job: Claimed | None = None) -> CallPermit:
    """Ask for permission to call. A closed breaker without limits costs one read: even a provider that has neither may
    have asked to be called later. A worker that was paused until its lease was gone learns it here, before it pays."""
    permit_id = kernel.new_id()
    now = kernel.now()
    row = await _read_as_holder(kernel, provider, job)
    _refuse_before(kernel, provider, row.not_before, now)
    if may_call_now(provider, row, now):
        return CallPermit(permit_id, row.state.generation)
    async with kernel.store.transaction() as tx:
        return await _admit_locked(kernel, tx, provider, permit_id, place_for_ms)


async def look_again(kernel: Kernel, provider: Provider, permit: CallPermit, job: Claimed | None) -> None:
    """For a process that was paused between its permission to call and the call: the lease may be gone by now, and the
    provider may have asked to be called later, or be known to be down."""
    row = await _read_as_holder(kernel, provider, job)
    now = kernel.now()
    _refuse_before(kernel, provider, row.not_before, now)
    if row.state.gate is not Gate.CLOSED and row.state.generation != permit.generation:
        raise ProviderHeld(
            provider.name, "its breaker has opened meanwhile", row.state.open_until or now + HELD_RECHECK_MS
        )


async def give_back(kernel: Kernel, provider: Provider, permit: CallPermit) -> None:
    """Hand back what a call took that was not made: its place and its trial permit."""
    if provider.breaker is None and provider.concurrency is None:
        return
    async with kernel.store.transaction() as tx:
        now = kernel.now()
        row = await providers.lock(tx, provider.name, now)
        if permit.id in row.places:
            await providers.set_places(tx, provider.name, rate.give_place_back(row.places, now, permit.id))
        state = breaker.release(row.state, permit.generation, permit.id)
        await providers.swap(tx, provider.name, row.state, state, now)


async def _read_as_holder(kernel: Kernel, provider: Provider, job: Claimed | None) -> ProviderRow:
    """The provider's row, for an attempt that still holds its job."""
    async with kernel.store.reading() as tx:
        if job is None:
            return await providers.read(tx, provider.name)
        row, held = await providers.read_with_lease(tx, provider.name, job.id, job.attempt)
    kernel.gates[provider.name] = row.state.gate
    if not held:
        raise LeaseLost(f"Job {job.id} is no longer held by attempt {job.attempt}; nothing was called.")
    return row


def may_call_now(provider: Provider, row: ProviderRow, now: int) -> bool:
    """Nothing stands in the way of a call and nothing needs counting: who has read this may call."""
    waits = row.not_before is not None and row.not_before > now
    return row.state.gate is Gate.CLOSED and provider.per_minute is provider.concurrency is None and not waits


async def _admit_locked(kernel: Kernel, tx: Tx, provider: Provider, permit_id: str, place_for_ms: int) -> CallPermit:
    row = await providers.lock(tx, provider.name, kernel.now())
    now = kernel.now()  # a call that waited for the row begins now, and counts from now
    _refuse_before(kernel, provider, row.not_before, now)
    if provider.concurrency is not None:
        await _take_place(tx, provider, row, permit_id, now, now + place_for_ms)
    if provider.per_minute is not None:
        await _spend(tx, provider, row, now)
    if provider.breaker is None:
        if row.state.forced:
            raise ProviderHeld(provider.name, "a person has opened its breaker", now + HELD_RECHECK_MS)
        return CallPermit(permit_id, row.state.generation)
    state, admission = breaker.admit(row.state, provider.breaker, now, permit_id)
    if isinstance(admission, Refused):
        raise ProviderHeld(provider.name, admission.reason, admission.retry_at or now + HELD_RECHECK_MS)
    assert isinstance(admission, Admitted)
    await providers.swap(tx, provider.name, row.state, state, now)
    return CallPermit(permit_id, admission.generation)


def _refuse_before(kernel: Kernel, provider: Provider, not_before: int | None, now: int) -> None:
    """The provider said when it wants to be called again: nobody calls it earlier, whichever job was told. What this
    process heard itself counts at once, whether or not the store has it yet."""
    until = max(not_before or 0, kernel.asked.get(provider.name, 0))
    if until > now:
        bound = hold_max_ms(provider)
        raise ProviderHeld(provider.name, "it asked to be called later", until, asked=True, hold_max_ms=bound)


async def _take_place(tx: Tx, provider: Provider, row: ProviderRow, permit_id: str, now: int, until: int) -> None:
    assert provider.concurrency is not None
    taken = rate.take_place(row.places, provider.concurrency, now, permit_id, until)
    if taken is None:
        reason = f"its limit of {provider.concurrency} calls at once is reached"
        raise ProviderHeld(provider.name, reason, now + HELD_RECHECK_MS, parks=True)
    await providers.set_places(tx, provider.name, taken)


async def _spend(tx: Tx, provider: Provider, row: ProviderRow, now: int) -> None:
    """Take one of the calls that the provider allows a minute."""
    assert provider.per_minute is not None
    after = rate.spend(row.usage, provider.per_minute, provider.burst, now)
    if isinstance(after, int):
        reason = f"its limit of {provider.per_minute} calls a minute is reached"
        raise ProviderHeld(provider.name, reason, after, parks=True)
    await providers.spend(tx, provider.name, after)


def room(provider: Provider, row: ProviderRow, now: int) -> int | None:
    """How many calls the provider's limits allow at this moment; None if it has none."""
    rooms = []
    if provider.concurrency is not None:
        rooms.append(rate.free_places(row.places, provider.concurrency, now))
    if provider.per_minute is not None:
        rooms.append(rate.room(row.usage, provider.per_minute, provider.burst, now))
    return min(rooms, default=None)

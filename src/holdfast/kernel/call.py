"""Calls a provider: ask its breaker and limits, call within a timeout, record what came of it.

While the breaker is open nothing is called and nothing is spent: `ProviderHeld` sends the job back to the queue. Only
the provider's own faults count against it; a caller's mistake gives a trial permit back uncounted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from holdfast.core import breaker, places
from holdfast.core.breaker import Admitted, Gate, Refused
from holdfast.core.deadline import clip_ms
from holdfast.core.failure import Category, Failure, classify
from holdfast.core.job import Claimed
from holdfast.core.provider import Provider
from holdfast.errors import CallError, LeaseLost, ProviderHeld
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.trace import span
from holdfast.stores.seam import Tx
from holdfast.tables import batch, breakers, calls, jobs
from holdfast.tables.breakers import ProviderRow

T = TypeVar("T")
HELD_RECHECK_MS = 1_000
PLACE_SLACK_MS = 5_000
"""How long after a call's time limit its place comes free by itself, should its process have died."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one call spent, in millionths of a currency unit, and in the provider's own units."""

    micros: int = 0
    units: dict[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Ticket:
    """Leave to make one call. A report from another generation of the breaker is ignored."""

    id: str
    generation: int


async def call(
    kernel: Kernel,
    provider: Provider,
    run: Callable[[], Awaitable[T]],
    *,
    job: Claimed | None = None,
    timeout_s: float | None = None,
    cost: Callable[[T], Cost] | None = None,
    before: Callable[[], Awaitable[None]] | None = None,
) -> T:
    """Make one call. `before` runs after the call was admitted and before it is made."""
    place_ms = int((timeout_s or provider.timeout_s) * 1_000) + PLACE_SLACK_MS
    ticket = await admit(kernel, provider, place_ms)
    if before is not None:
        await before()
    await kernel.failpoint("call.before")
    started = kernel.now()
    limit_ms = clip_ms(int((timeout_s or provider.timeout_s) * 1_000), job.deadline_at if job else None, started)
    try:
        async with asyncio.timeout(limit_ms / 1_000):
            with span(f"call {provider.name}"):
                value: T = await kernel.reach(provider, run)
    except (LeaseLost, ProviderHeld):  # nothing was called
        raise
    except Exception as error:
        found = classify(error)
        await _report(kernel, provider, ticket, job, started, found, Cost())
        if isinstance(error, CallError):
            raise
        raise CallError(found) from error
    await kernel.failpoint("call.after")
    await _report(kernel, provider, ticket, job, started, None, cost(value) if cost else Cost())
    return value


async def admit(kernel: Kernel, provider: Provider, place_ms: int) -> Ticket:
    """Ask for leave to call. A closed breaker without limits costs one read: even a provider that has neither may have
    asked to be called later."""
    ticket_id = kernel.new_id()
    now = kernel.now()
    async with kernel.store.reading() as tx:
        row = await breakers.read(tx, provider.name)
    _refuse_before(provider, row, now)
    if row.state.gate is Gate.CLOSED and provider.per_minute is None and provider.concurrency is None:
        return Ticket(ticket_id, row.state.generation)
    async with kernel.store.transaction() as tx:
        return await _admit_locked(tx, provider, ticket_id, kernel.now(), place_ms)


async def _admit_locked(tx: Tx, provider: Provider, ticket_id: str, now: int, place_ms: int) -> Ticket:
    row = await breakers.lock(tx, provider.name, now)
    _refuse_before(provider, row, now)
    if provider.concurrency is not None:
        await _take_place(tx, provider, row, ticket_id, now, now + place_ms)
    if provider.per_minute is not None:
        await _spend(tx, provider, row, now)
    if provider.breaker is None:
        return Ticket(ticket_id, 0)
    state, admission = breaker.admit(row.state, provider.breaker, now, ticket_id)
    if isinstance(admission, Refused):
        raise ProviderHeld(provider.name, admission.reason, admission.retry_at or now + HELD_RECHECK_MS)
    assert isinstance(admission, Admitted)
    await breakers.swap(tx, provider.name, row.state, state, now)
    return Ticket(ticket_id, admission.generation)


def _refuse_before(provider: Provider, row: ProviderRow, now: int) -> None:
    """The provider said when it wants to be called again: nobody calls it earlier, whichever job was told."""
    if row.not_before is not None and row.not_before > now:
        raise ProviderHeld(provider.name, "it asked to be called later", row.not_before)


async def _take_place(tx: Tx, provider: Provider, row: ProviderRow, ticket_id: str, now: int, until: int) -> None:
    assert provider.concurrency is not None
    taken = places.take(row.places, provider.concurrency, now, ticket_id, until)
    if taken is None:
        reason = f"its limit of {provider.concurrency} calls at once is reached"
        raise ProviderHeld(provider.name, reason, now + HELD_RECHECK_MS, parks=True)
    await breakers.set_places(tx, provider.name, taken)


async def _spend(tx: Tx, provider: Provider, row: ProviderRow, now: int) -> None:
    """Take one token from the provider's bucket, which holds at most a minute's worth."""
    assert provider.per_minute is not None
    have = tokens(provider.per_minute, row, now)
    if have < 1:
        wait_ms = int((1 - have) * 60_000 / provider.per_minute) + 1
        reason = f"its limit of {provider.per_minute} calls a minute is reached"
        raise ProviderHeld(provider.name, reason, now + wait_ms, parks=True)
    await breakers.spend(tx, provider.name, have - 1, now)


def tokens(per_minute: int, row: ProviderRow, now: int) -> float:
    """How many calls the bucket has now."""
    if row.tokens is None or row.tokens_at is None:
        return float(per_minute)
    return min(float(per_minute), row.tokens + max(0, now - row.tokens_at) * per_minute / 60_000)


def room(provider: Provider, row: ProviderRow, now: int) -> int | None:
    """How many calls the provider's limits allow at this moment; None if it has none."""
    rooms = []
    if provider.concurrency is not None:
        rooms.append(places.free(row.places, provider.concurrency, now))
    if provider.per_minute is not None:
        rooms.append(int(tokens(provider.per_minute, row, now)))
    return min(rooms, default=None)


async def _report(
    kernel: Kernel,
    provider: Provider,
    ticket: Ticket,
    job: Claimed | None,
    started: int,
    found: Failure | None,
    cost: Cost,
) -> None:
    """Record the call and tell the breaker, in one commit."""
    now = kernel.now()
    outcome = "ok" if found is None else ("ambiguous" if found.ambiguous else "failed")
    row = calls.NewCall(
        id=ticket.id,
        job_id=job.id if job else None,
        stage=job.stage if job else None,
        attempt=job.attempt if job else None,
        provider=provider.name,
        started_at=started,
        duration_ms=max(0, now - started),
        outcome=outcome,
        status=found.status if found else None,
        error_class=found.error_class if found else None,
        cost_micros=cost.micros,
        units=batch.text(cost.units) if cost.units else None,
    )
    async with kernel.store.transaction() as tx:
        await calls.put(tx, [row])
        await _tell_breaker(kernel, tx, provider, ticket, found, now)
        await kernel.failpoint("breaker.before_commit")
    kernel.watch.observe("provider_seconds", (now - started) / 1_000, provider=provider.name, outcome=outcome)


async def _give_place_back(tx: Tx, provider: Provider, row: ProviderRow, ticket: Ticket, now: int) -> None:
    """The place goes to whoever waits longest for one. What this misses, `hold_once` sees."""
    await breakers.set_places(tx, provider.name, places.give_back(row.places, now, ticket.id))
    if row.state.gate is Gate.CLOSED:
        for queue in sorted(await jobs.unpark(tx, provider.name, None, 1, now)):
            await tx.hint(f"queue:{queue}")


async def _tell_breaker(
    kernel: Kernel, tx: Tx, provider: Provider, ticket: Ticket, found: Failure | None, now: int
) -> None:
    asked_ms = found.retry_after_ms if found and found.category is Category.RATE_LIMIT else None
    if provider.breaker is None and asked_ms is None and provider.concurrency is None:
        return
    row = await breakers.lock(tx, provider.name, now)
    if provider.concurrency is not None:
        await _give_place_back(tx, provider, row, ticket, now)
    if asked_ms:
        await breakers.gate_until(tx, provider.name, now + min(asked_ms, 300_000))
    if provider.breaker is None:
        return
    if found is None or found.faults:
        state = breaker.record(row.state, provider.breaker, now, ticket.generation, ticket.id, found is None)
    else:
        state = breaker.release(row.state, ticket.generation, ticket.id)
    await breakers.swap(tx, provider.name, row.state, state, now)
    if state.gate is not row.state.gate:
        await tx.hint("breakers")
        kernel.watch.count("breaker_changes", provider=provider.name, gate=state.gate)
        kernel.watch.log("breaker", provider=provider.name, breaker_state=state.gate, reason=state.reason)

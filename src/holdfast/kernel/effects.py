"""Performs external effects: send, then mark; and after any doubt ask the provider before sending again.

    1. plan     the row exists before anything is sent; a known key is read again
    2. begin    'sending' is committed, fenced by the job's lease
    3. send     with a token that depends on the key alone
    4. mark     ONE write: provider id, time, status

Where nothing hinders the provider, 1 and 2 are one commit, and 4 is one with the record of the call; attempts that get
there at the same time share both.

A crash between 2 and 4 leaves a row that says so, and `core.effect.next_step` knows what each provider class allows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from holdfast.core.effect import (
    AskPerson,
    EffectRow,
    EffectStatus,
    LookLater,
    LookUp,
    Refuse,
    Send,
    Skip,
    Step,
    after_not_found,
    next_step,
    token_of,
)
from holdfast.core.failure import Category
from holdfast.core.job import Claimed
from holdfast.core.provider import Lookup, Provider
from holdfast.core.redact import redact_message, redact_text
from holdfast.errors import CallError, LeaseLost, ProviderHeld, StoreUnavailable
from holdfast.kernel.call import STOOD_STILL_MS, admit, call, make, place_ms, unhindered
from holdfast.kernel.gather import together
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.record import Report, Ticket, record
from holdfast.tables import audit, breakers, effects
from holdfast.tables.effects import Begin, Mark, Plan, Refusal

SHARED_RECHECK_MS = 2_000
ASK_AGAIN_S = (0.2, 1.0, 3.0)
"""How long after a lost answer of the database to ask again."""


class Intent(NamedTuple):
    """An effect that an attempt wants to bring about."""

    job: Claimed
    provider: Provider
    key: str
    can_look: bool
    ticket_id: str

    def plan(self) -> Plan:
        job, provider = self.job, self.provider
        told = (job.id, job.kind, job.stage, provider.name, provider.effects, job.epoch, job.attempt)
        return Plan(self.key, token_of(self.key), *told)


class Begun(NamedTuple):
    """A send that the ledger knows of: with which leave, when, and the how manyth."""

    ticket: Ticket
    at: int
    sends: int


class Opened(NamedTuple):
    """What the ledger says of an effect, what is to be done, and whether a send has begun already."""

    row: EffectRow
    step: Step
    begun: Begun | None


async def perform(
    kernel: Kernel,
    job: Claimed,
    provider: Provider,
    key: str,
    send: Callable[[str], Awaitable[str]],
    lookup: Lookup | None,
    *,
    timeout_s: float | None = None,
) -> str:
    """Bring the effect of `key` about, at most once; return the provider's id of it."""
    find = lookup or provider.lookup
    intent = Intent(job, provider, key, find is not None, kernel.new_id())
    row, step, begun = await _open(kernel, intent)
    if isinstance(step, LookUp):
        assert find is not None
        found = await look_up(kernel, provider, row, find, job=job, alert=step.alert, timeout_s=timeout_s)
        if found is not None:
            return found
        step = after_not_found(row, provider, kernel.now())
    match step:
        case Skip(provider_id):
            return provider_id
        case Send():
            return await _send(kernel, job, provider, row, begun, send, timeout_s)
        case LookLater(at):
            raise ProviderHeld(provider.name, "an earlier send may still arrive", at)
        case Refuse(error_class, message):
            raise CallError.of(Category.VALIDATION, error_class, message)
        case AskPerson(why):
            await ask_person(kernel, row.key, why)
            message = f"The effect '{redact_text(key)}' needs a person: {why}."
            raise CallError.of(Category.POLICY, "EFFECT_AMBIGUOUS", message)
        case LookUp():  # pragma: no cover
            raise AssertionError("a lookup never asks for another lookup")


async def _open(kernel: Kernel, intent: Intent) -> Opened:
    """Plan, and begin if nothing is in the way. A commit whose answer was lost is asked about while we know that we
    have sent nothing: later, its 'sending' would be a doubt, perhaps one for a person."""
    for pause_s in ASK_AGAIN_S:
        try:
            return await together(kernel, _open_all, intent)
        except StoreUnavailable:
            await asyncio.sleep(pause_s)
    return await together(kernel, _open_all, intent)


def _step(intent: Intent, row: EffectRow, now: int) -> Step:
    if row.status is EffectStatus.SENDING and row.ticket == intent.ticket_id:
        return Send()  # our own beginning, whose answer was lost: nothing was sent under it
    return next_step(row, intent.provider, intent.job.epoch, now, can_look=intent.can_look)


async def _open_all(kernel: Kernel, intents: Sequence[Intent]) -> list[Opened | Exception]:
    """Read each effect's row, written if it is new. Where it is to be sent and nothing hinders the provider, the send
    begins in the same commit; elsewhere the provider is asked for leave first."""
    async with kernel.store.transaction() as tx:
        now = kernel.now()
        await effects.plan(tx, [intent.plan() for intent in intents], now)
        rows = await effects.lock_all(tx, [intent.key for intent in intents])
        gates = await breakers.read_all(tx, {intent.provider.name for intent in intents})
        steps = [_step(one, rows[one.key], now) for one in intents]
        free: dict[str, Intent] = {}
        for one, step in zip(intents, steps, strict=True):
            if isinstance(step, Send) and unhindered(one.provider, gates[one.provider.name], now):
                free.setdefault(one.key, one)  # of several jobs with one effect, one begins
        begins = [_begin_of(one.job, one.key, rows[one.key].sends, one.ticket_id) for one in free.values()]
        begun = await effects.begin(tx, begins, now) if begins else {}
    opened: list[Opened | Exception] = []
    for one, step in zip(intents, steps, strict=True):
        if free.get(one.key) is not one:
            opened.append(Opened(rows[one.key], step, None))
        elif one.key not in begun:
            opened.append(_lease_lost(one.job))
        else:
            ticket = Ticket(one.ticket_id, gates[one.provider.name].state.generation)
            opened.append(Opened(rows[one.key], step, Begun(ticket, now, begun[one.key])))
    return opened


def _begin_of(job: Claimed, key: str, sends: int, ticket_id: str) -> Begin:
    return Begin(key, job.id, job.attempt, job.epoch, sends, ticket_id)


async def _send(
    kernel: Kernel,
    job: Claimed,
    provider: Provider,
    row: EffectRow,
    begun: Begun | None,
    send: Callable[[str], Awaitable[str]],
    timeout_s: float | None,
) -> str:
    if begun is None:
        ticket = await admit(kernel, provider, place_ms(provider, timeout_s), job)
        begun = await _begin(kernel, job, provider, row, ticket, row.sends)
    await kernel.failpoint("effect.before_send")
    last: Begun = begun

    async def sending() -> str:
        nonlocal last
        while kernel.now() - last.at > STOOD_STILL_MS:
            # We stood still meanwhile: ask for the lease again, and say when we really send.
            last = await _begin(kernel, job, provider, row, last.ticket, last.sends)
            await kernel.failpoint("effect.before_send")
        provider_id = await send(row.token)
        await kernel.failpoint("effect.after_send")
        return provider_id

    made = await make(kernel, provider, sending, job=job, timeout_s=timeout_s)
    told = Report(provider, begun.ticket, job, made.started, made.failure)
    if made.error is not None:
        await record(kernel, replace(told, refusal=_refusal(job, provider, row, made.error, last.sends)))
        raise made.error
    provider_id = made.outcome()
    marked = await record(kernel, replace(told, mark=Mark(row.key, job.attempt, provider_id)))
    await kernel.failpoint("effect.after_mark")
    if not marked:
        raise LeaseLost(f"Another attempt took over the effect of job {job.id}; its record stands.")
    kernel.watch.count("effects_sent", provider=provider.name)
    return provider_id


async def _begin(kernel: Kernel, job: Claimed, provider: Provider, row: EffectRow, ticket: Ticket, sends: int) -> Begun:
    """Say that the send starts now. Another job with the same effect may have begun meanwhile: what that one comes to
    decides what we do."""
    async with kernel.store.transaction() as tx:
        now = kernel.now()
        begun = await effects.begin(tx, [_begin_of(job, row.key, sends, ticket.id)], now)
        if not begun:
            found = await effects.lock(tx, row.key)
            if found is not None and found.sends != sends:
                reason = "another job is sending the same effect"
                raise ProviderHeld(provider.name, reason, now + SHARED_RECHECK_MS)
            raise _lease_lost(job)
    return Begun(ticket, now, begun[row.key])


def _lease_lost(job: Claimed) -> LeaseLost:
    return LeaseLost(f"Job {job.id} is no longer held by attempt {job.attempt}; nothing was sent.")


def _refusal(job: Claimed, provider: Provider, row: EffectRow, error: CallError, sends: int) -> Refusal:
    """The send failed: definitely (it may be planned again, or never) or ambiguously (nobody knows).

    A definite refusal speaks of this send alone. Where a token made it safe to send in spite of an earlier doubt, the
    doubt stays: once the provider has forgotten the token, a plain re-send would be a second effect."""
    why = error.failure
    doubted = provider.effects == "token" and row.status in (EffectStatus.SENDING, EffectStatus.UNKNOWN)
    if why.ambiguous:
        status = EffectStatus.UNKNOWN
        error.failure = replace(why, retryable=True)  # the ledger resolves the doubt before any further send
    elif doubted:
        status = EffectStatus.UNKNOWN
    else:
        status = EffectStatus.PLANNED if why.retryable else EffectStatus.FAILED
    return Refusal(row.key, job.attempt, sends, status, why.error_class, redact_message(why.message)[:500])


async def look_up(
    kernel: Kernel,
    provider: Provider,
    row: EffectRow,
    find: Lookup,
    *,
    job: Claimed | None,
    alert: bool,
    timeout_s: float | None = None,
) -> str | None:
    """Ask the provider whether it has the effect; if so, backfill the row. Never sends."""
    if alert:
        kernel.watch.log("effect.marked_without_evidence", key=redact_text(row.key), provider=provider.name)
        kernel.watch.count("effects_without_evidence", provider=provider.name)
    try:
        found = await call(kernel, provider, lambda: find(row.token), job=job, timeout_s=timeout_s)
    except CallError as error:
        # Whatever was wrong with the question, the send it was about is still in doubt, and was not refused.
        error.failure = replace(error.failure, ambiguous=True, retryable=True)
        raise
    await kernel.failpoint("reconcile.after_lookup")
    if found is not None:
        async with kernel.store.transaction() as tx:
            await effects.backfill(tx, row.key, found, kernel.now())
    return found


async def ask_person(kernel: Kernel, key: str, why: str) -> None:
    """Set the effect aside for a person; the console and `holdfast effects` list it."""
    async with kernel.store.transaction() as tx:
        await effects.ask(tx, key, why, kernel.now())
    kernel.watch.count("effects_in_review")


async def answer(kernel: Kernel, key: str, *, sent: bool, provider_id: str | None, actor: str) -> bool:
    """A person says whether the effect happened. Audited; the job may then be replayed."""
    status = EffectStatus.SENT if sent else EffectStatus.PLANNED
    async with kernel.store.transaction() as tx:
        now = kernel.now()
        done = await effects.answer(tx, key, status, provider_id or (f"person:{actor}" if sent else None), now)
        if done:
            await audit.write(tx, actor, "effect.answered", f"effect:{key}", {"sent": sent}, now)
    return done

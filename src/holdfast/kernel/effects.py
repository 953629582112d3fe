"""Performs external effects: send, then mark; and after any doubt ask the provider before sending again.

    1. plan     the row exists before anything is sent; a known key is read again
    2. begin    'sending' is committed, fenced by the job's lease
    3. send     with a token that depends on the key alone
    4. mark     ONE write: provider id, time, status

Where nothing hinders the provider, 1 and 2 are one commit (`effect_open`), and 4 is one with the record of the call;
attempts that get there at the same time share both. Whoever finds the effect being sent by another attempt waits for
what becomes of it.

A crash between 2 and 4 leaves a row that says so, and `core.effect.next_step` knows what each provider class allows.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import replace
from functools import partial

from holdfast.core.effect import (
    PERSON,
    AskPerson,
    EffectRow,
    EffectStatus,
    LookLater,
    LookUp,
    Refuse,
    Send,
    Skip,
    WaitForSender,
    after_not_found,
)
from holdfast.core.failure import Category
from holdfast.core.job import Claimed
from holdfast.core.provider import Lookup, Provider
from holdfast.core.redact import redact_message, redact_text
from holdfast.errors import BadDeclaration, CallError, LeaseLost, ProviderHeld
from holdfast.kernel.call import STOOD_STILL_MS, admit, call, give_back, look_again, make_call, place_ms, standing_of
from holdfast.kernel.effect_open import EffectPlan, Intent, SendStarted, begin_of, intent_of, lease_lost, open_effect
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.record import CallPermit, Report, record
from holdfast.tables import audit, effects
from holdfast.tables.effects import Mark, Refusal

WAIT_S = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""How long to wait, again and again, for another attempt that is sending the same effect. Who has waited all of it goes
back to the queue."""
SHARED_RECHECK_MS = (1_000, 10_000)
"""When such a job comes again: after half as long as the send has lasted, within these bounds."""
SendFunction = Callable[[str], Awaitable[str]]
_sending: ContextVar[tuple[str, ...]] = ContextVar("holdfast_sending", default=())
"""The keys of the effects in whose `send` this task is."""


async def perform(
    kernel: Kernel,
    job: Claimed,
    provider: Provider,
    key: str | tuple[object, ...],
    send: SendFunction,
    lookup: Lookup | None,
    *,
    timeout_s: float | None = None,
) -> str:
    """Bring the effect of `key` about, at most once; return the provider's id of it."""
    find = lookup or provider.lookup
    intent = intent_of(kernel, job, provider, key, can_look=find is not None)
    if intent.key in _sending.get():
        raise BadDeclaration(
            f"The `send` of the effect '{redact_text(intent.key)}' performs the same effect, and would wait for "
            "itself; give the inner one a key of its own."
        )
    row, step, started = await _open(kernel, intent)
    if isinstance(step, LookUp):
        known = await look_up(kernel, provider, row, find, job=job, alert=step.alert, timeout_s=timeout_s)
        if known is not None:
            return known
        step = after_not_found(row, provider, kernel.now())
    match step:
        case Skip(provider_id):
            return provider_id
        case Send():
            return await _send(kernel, intent, row, started, send, timeout_s)
        case LookLater(at):
            raise ProviderHeld(provider.name, "an earlier send may still arrive", at)
        case Refuse(error_class, message):
            raise CallError.of(Category.VALIDATION, error_class, message)
        case AskPerson(why):
            await ask_person(kernel, row.key, why, was=row.provider_id)
            message = f"The effect '{redact_text(row.key)}' needs a person: {why}."
            raise CallError.of(Category.POLICY, "EFFECT_AMBIGUOUS", message)
        case LookUp() | WaitForSender():  # pragma: no cover
            raise AssertionError("a lookup never asks for another lookup")


async def _open(kernel: Kernel, intent: Intent) -> EffectPlan:
    """Open the effect; while another attempt is sending it, wait."""
    opened = await open_effect(kernel, intent)
    for pause_s in WAIT_S:
        if not isinstance(opened.step, WaitForSender):
            return opened
        await asyncio.sleep(pause_s)
        opened = await open_effect(kernel, intent)
    if isinstance(opened.step, WaitForSender):
        raise _being_sent(kernel, intent.provider, opened.row)
    return opened


def _being_sent(kernel: Kernel, provider: Provider, row: EffectRow) -> ProviderHeld:
    now = kernel.now()
    least, most = SHARED_RECHECK_MS
    again_ms = min(most, max(least, (now - (row.last_sent_at or now)) // 2))
    return ProviderHeld(provider.name, "another job is sending the same effect", now + again_ms)


async def _send(
    kernel: Kernel,
    intent: Intent,
    row: EffectRow,
    started: SendStarted | None,
    send: SendFunction,
    timeout_s: float | None,
) -> str:
    job, provider = intent.job, intent.provider
    if started is None:
        permit = await admit(kernel, provider, place_ms(provider, timeout_s), job)
        started = await _begin(kernel, job, provider, row, permit, row.sends)
    await kernel.failpoint("effect.before_send")
    last: SendStarted = started

    async def sending() -> str:
        nonlocal last
        while kernel.now() - last.at > STOOD_STILL_MS:
            # We were paused meanwhile: ask the provider's row and for the lease again, and say when we really send.
            await look_again(kernel, provider, last.permit, job)
            last = await _begin(kernel, job, provider, row, last.permit, last.sends)
            await kernel.failpoint("effect.before_send")
        outer = _sending.set((*_sending.get(), row.key))
        try:
            provider_id = await _run_send(row, send)
        finally:
            _sending.reset(outer)
        await kernel.failpoint("effect.after_send")
        return provider_id

    try:
        result = await make_call(kernel, provider, sending, job=job, timeout_s=timeout_s, effect=row.key)
    except ProviderHeld as held:
        await _take_back(kernel, provider, last, _refusal(job, provider, row, held, last.sends))
        raise
    report = Report(provider, started.permit, job, result.started, result.failure)
    if result.error is not None:
        await record(kernel, report._replace(refusal=_refusal(job, provider, row, result.error, last.sends)))
        result.error.standing = standing_of(provider, started.permit, result.error.failure)
        raise result.error
    provider_id = result.outcome()
    marked = await record(kernel, report._replace(mark=Mark(row.key, job.id, job.attempt, provider_id)))
    await kernel.failpoint("effect.after_mark")
    if not marked:
        return await _outcome_of_other(kernel, job, row)
    kernel.watch.count("effects_sent", provider=provider.name)
    return provider_id


async def _run_send(row: EffectRow, send: SendFunction) -> str:
    """Call `send`. One that does not say what the provider called it may have sent all the same: a mistake in the
    declaration, which no further attempt fixes, and a doubt in the ledger."""
    answer = send(row.token)
    if not inspect.isawaitable(answer):
        raise _no_evidence(row, "is not async: begin it with async def, or give a lambda that returns a coroutine")
    provider_id = await answer
    if isinstance(provider_id, str) and provider_id.strip():
        return provider_id
    given = "an empty text" if isinstance(provider_id, str) else f"a {type(provider_id).__name__}"
    raise _no_evidence(row, f"returned {given}, and must return the provider's id of what it did as a str")


def _no_evidence(row: EffectRow, what: str) -> CallError:
    message = f"The `send` of the effect '{redact_text(row.key)}' {what}. It may have happened; it is not repeated."
    return CallError.of(Category.BUG, "EFFECT_WITHOUT_ID", message, ambiguous=True)


async def _outcome_of_other(kernel: Kernel, job: Claimed, row: EffectRow) -> str:
    """The row was not ours to mark any more. If it has its evidence, that stands; else our lease is gone."""
    async with kernel.store.transaction() as tx:
        current = await effects.lock(tx, row.key)
    if current is not None and current.status is EffectStatus.SENT and current.provider_id is not None:
        return current.provider_id
    raise LeaseLost(f"Another attempt took over the effect of job {job.id}; its record stands.")


async def _begin(
    kernel: Kernel, job: Claimed, provider: Provider, row: EffectRow, permit: CallPermit, sends: int
) -> SendStarted:
    """Say that the send starts now. Another job with the same effect may have begun meanwhile: what that one comes to
    decides what we do."""
    async with kernel.store.transaction() as tx:
        now = kernel.now()
        begun = await effects.begin(tx, [begin_of(job, row.key, sends, permit.id)], now)
        if not begun:
            current = await effects.lock(tx, row.key)
            if current is not None and current.sends != sends:
                raise _being_sent(kernel, provider, current)
            raise lease_lost(job)
    return SendStarted(permit, now, begun[row.key])


async def _take_back(kernel: Kernel, provider: Provider, started: SendStarted, refusal: Refusal) -> None:
    """Nothing was sent: the row must not say that something may have been. If another job is sending the effect by
    now, its word stands: the entry is fenced by the number of sends."""
    async with kernel.store.transaction() as tx:
        await effects.refuse(tx, [refusal], kernel.now())
    await give_back(kernel, provider, started.permit)


def _refusal(job: Claimed, provider: Provider, row: EffectRow, error: CallError, sends: int) -> Refusal:
    """The send failed: definitely (it may be planned again, or never) or ambiguously (nobody knows).

    A definite refusal speaks of this send alone. Where a token made it safe to send in spite of an earlier doubt, the
    doubt stays: once the provider has forgotten the token, a plain re-send would be a second effect."""
    why = error.failure
    doubted = provider.effects == "token" and row.status in (EffectStatus.SENDING, EffectStatus.UNKNOWN)
    if why.ambiguous:
        status = EffectStatus.UNKNOWN
        if why.category is not Category.BUG:
            error.failure = replace(why, retryable=True)  # the ledger resolves the doubt before any further send
    elif doubted:
        status = EffectStatus.UNKNOWN
    else:
        status = EffectStatus.PLANNED if why.retryable else EffectStatus.FAILED
    return Refusal(row.key, job.id, job.attempt, sends, status, why.error_class, redact_message(why.message)[:500])


async def look_up(
    kernel: Kernel,
    provider: Provider,
    row: EffectRow,
    find: Lookup | None,
    *,
    job: Claimed | None,
    alert: bool,
    timeout_s: float | None = None,
) -> str | None:
    """Ask the provider whether it has the effect, by its id if the row has one and by its token; if so, backfill the
    row. Never sends."""
    if alert:
        kernel.watch.log("effect.marked_without_evidence", key=redact_text(row.key), provider=provider.name)
        kernel.watch.count("effects_without_evidence", provider=provider.name)
    try:
        provider_id = await find_at_provider(kernel, provider, row, find, job=job, timeout_s=timeout_s)
    except CallError as error:
        # Whatever was wrong with the question, the send it was about is still in doubt, and was not refused.
        error.failure = replace(error.failure, ambiguous=True, retryable=True)
        raise
    await kernel.failpoint("reconcile.after_lookup")
    if provider_id is not None:
        async with kernel.store.transaction() as tx:
            await effects.backfill(tx, row.key, provider_id, kernel.now(), was=row.provider_id)
    return provider_id


async def find_at_provider(
    kernel: Kernel,
    provider: Provider,
    row: EffectRow,
    find: Lookup | None,
    *,
    job: Claimed | None = None,
    timeout_s: float | None = None,
) -> str | None:
    """The provider's id of the effect, by the provider's own word; None if it has nothing. Writes nothing."""
    has_id, provider_id = provider.has_id, row.provider_id or ""
    ask = partial(call, kernel, provider, job=job, timeout_s=timeout_s)
    if has_id is not None and provider_id and await ask(lambda: has_id(provider_id)):
        return provider_id
    return await ask(lambda: find(row.token)) if find is not None else None


async def ask_person(kernel: Kernel, key: str, why: str, *, was: str | None = None) -> None:
    """Set the effect aside for a person; the console and `holdfast effects` list it. `was`: its id, if that is what is
    in doubt."""
    async with kernel.store.transaction() as tx:
        await effects.ask(tx, key, why, kernel.now(), was=was)
    kernel.watch.count("effects_in_review")


async def answer(kernel: Kernel, key: str, *, sent: bool, provider_id: str | None, actor: str) -> bool:
    """A person says whether the effect happened. Audited; the job may then be replayed."""
    status = EffectStatus.SENT if sent else EffectStatus.PLANNED
    async with kernel.store.transaction() as tx:
        now = kernel.now()
        done = await effects.answer(tx, key, status, provider_id or (f"{PERSON}{actor}" if sent else None), now)
        if done:
            await audit.write(tx, actor, "effect.answered", f"effect:{key}", {"sent": sent}, now)
    return done

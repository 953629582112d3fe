"""Performs external effects: send, then mark; and after any doubt ask the provider before sending again.

    1. plan     the row exists before anything is sent; a known key is read again
    2. begin    'sending' is committed, fenced by the job's lease
    3. send     with a token that depends on the key alone
    4. mark     ONE write: provider id, time, status

A crash between 2 and 4 leaves a row that says so, and `core.effect.next_step` knows what each provider class allows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import NoReturn

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
from holdfast.core.redact import redact_text
from holdfast.errors import CallError, LeaseLost, ProviderHeld
from holdfast.kernel.call import call
from holdfast.kernel.kernel import Kernel
from holdfast.stores.seam import Tx
from holdfast.tables import audit, effects

# A process may be paused between its check of the lease and its first byte. What it can notice by itself, it notices.
BEGUN_MS_MAX = 1_000
SHARED_RECHECK_MS = 2_000


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
    row, step = await _planned(kernel, job, provider, key, can_look=find is not None)
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
            return await _send(kernel, job, provider, row, send, timeout_s)
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


async def _planned(
    kernel: Kernel, job: Claimed, provider: Provider, key: str, *, can_look: bool
) -> tuple[EffectRow, Step]:
    """The effect's row, written if it is new, and what to do about it."""
    now = kernel.now()
    async with kernel.store.transaction() as tx:
        await effects.plan(
            tx,
            key=key,
            token=token_of(key),
            job_id=job.id,
            kind=job.kind,
            stage=job.stage,
            provider=provider.name,
            provider_class=provider.effects,
            epoch=job.epoch,
            attempt=job.attempt,
            now=now,
        )
        row = await effects.lock(tx, key)
    assert row is not None
    return row, next_step(row, provider, job.epoch, now, can_look=can_look)


async def _send(
    kernel: Kernel,
    job: Claimed,
    provider: Provider,
    row: EffectRow,
    send: Callable[[str], Awaitable[str]],
    timeout_s: float | None,
) -> str:
    begun_at: int | None = None
    sends = row.sends

    async def begin() -> None:
        nonlocal begun_at, sends
        async with kernel.store.transaction() as tx:
            now = kernel.now()
            begun = await effects.begin(tx, row.key, job.id, job.attempt, job.epoch, now, sends=sends)
            if begun is None:
                await _not_ours(kernel, tx, job, provider, row.key, sends)
        begun_at, sends = now, begun or sends
        await kernel.failpoint("effect.before_send")

    async def sending() -> str:
        while begun_at is None or kernel.now() - begun_at > BEGUN_MS_MAX:
            await begin()  # we stood still meanwhile: ask for the lease again, and say when we really send
        provider_id = await send(row.token)
        await kernel.failpoint("effect.after_send")
        return provider_id

    try:
        provider_id = await call(kernel, provider, sending, job=job, timeout_s=timeout_s, before=begin)
    except CallError as error:
        if begun_at is not None:
            await _refused(kernel, job, provider, row, error, sends)
        raise
    async with kernel.store.transaction() as tx:
        marked = await effects.mark(tx, row.key, job.attempt, provider_id, kernel.now())
        if not marked:
            await _overtaken(kernel, tx, provider, row.key, provider_id)
    await kernel.failpoint("effect.after_mark")
    if not marked:
        raise LeaseLost(f"Another attempt took over the effect of job {job.id}; its record stands.")
    kernel.watch.count("effects_sent", provider=provider.name)
    return provider_id


async def _not_ours(kernel: Kernel, tx: Tx, job: Claimed, provider: Provider, key: str, sends: int) -> NoReturn:
    """Nothing was sent. Another job with the same effect began meanwhile: what it comes to decides what we do."""
    found = await effects.lock(tx, key)
    if found is not None and found.sends != sends:
        raise ProviderHeld(provider.name, "another job is sending the same effect", kernel.now() + SHARED_RECHECK_MS)
    raise LeaseLost(f"Job {job.id} is no longer held by attempt {job.attempt}; nothing was sent.")


async def _overtaken(kernel: Kernel, tx: Tx, provider: Provider, key: str, provider_id: str) -> None:
    """Somebody else sent while we stood still, and so did we. Where no token made the two one, that is written down:
    it could not be prevented, so it must be seen."""
    found = await effects.lock(tx, key)
    known = found.provider_id if found else provider_id
    if known == provider_id or (known is None and provider.effects == "token"):
        return
    data = {"provider": provider.name, "ours": provider_id, "theirs": known}
    await audit.write(tx, "kernel", "effect.duplicate", f"effect:{key}", data, kernel.now())
    kernel.watch.log("effect.duplicate", key=redact_text(key), **data)
    kernel.watch.count("effects_duplicated", provider=provider.name)


async def _refused(
    kernel: Kernel, job: Claimed, provider: Provider, row: EffectRow, error: CallError, sends: int
) -> None:
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
    async with kernel.store.transaction() as tx:
        message = redact_text(why.message)[:500]
        now = kernel.now()
        await effects.refuse(tx, row.key, job.attempt, status, why.error_class, message, now, sends=sends)


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
    found = await call(kernel, provider, lambda: find(row.token), job=job, timeout_s=timeout_s)
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

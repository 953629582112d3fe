"""Planted bugs about effects: their order, their keys, their tokens, and who may send. Production code holds none."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from holdfast.core import effect
from holdfast.core.effect import LookUp, Send
from holdfast.errors import CallError, LeaseLost
from holdfast.kernel import call, effect_open, effects
from holdfast.kernel.ledger import paid, verify
from holdfast.tables import answers
from holdfast.tables import effects as ledger
from tests.proof.plant import respelled, swapped


@contextmanager
def mark_before_send() -> Iterator[None]:
    """The ledger says 'sent' before anything is."""

    async def send_late(kernel: Any, intent: Any, row: Any, begun: Any, send: Any, timeout_s: Any) -> str:
        job, provider = intent.job, intent.provider
        async with kernel.store.transaction() as tx:
            begin = ledger.Begin(row.key, job.id, job.attempt, job.epoch, row.sends)
            if begun is None and not await ledger.begin(tx, [begin], kernel.now()):
                raise LeaseLost("gone")
            await ledger.mark(tx, [ledger.Mark(row.key, job.id, job.attempt, "guessed")], kernel.now())
        found = await call.call(kernel, provider, lambda: send(row.token), job=job, timeout_s=timeout_s)
        async with kernel.store.transaction() as tx:
            await tx.lane.execute(
                "UPDATE holdfast_effects SET provider_id = :found WHERE key = :key", {"found": found, "key": row.key}
            )
        return str(found)

    with swapped(effects, "_send", send_late):
        yield


@contextmanager
def attempt_in_token() -> Iterator[None]:
    """Every attempt is a new request to the provider."""
    intact = effects._send

    async def send(kernel: Any, intent: Any, row: Any, *rest: Any) -> str:
        return await intact(kernel, intent, replace(row, token=f"{row.token}-{intent.job.attempt}"), *rest)

    with swapped(effects, "_send", send):
        yield


@contextmanager
def lookup_too_early() -> Iterator[None]:
    """'Not found' is believed while the effect may still arrive."""
    intact = effect._after_ambiguity

    def hurry(row: Any, provider: Any, now: int, can_look: bool) -> Any:
        return LookUp() if provider.effects == "lookup" and can_look else intact(row, provider, now, can_look)

    with swapped(effect, "_after_ambiguity", hurry):
        yield


@contextmanager
def resend_without_proof() -> Iterator[None]:
    """After doubt, a provider with neither token nor lookup is simply asked again."""
    intact = effect._after_ambiguity

    def again(row: Any, provider: Any, now: int, can_look: bool) -> Any:
        return Send() if provider.effects == "neither" else intact(row, provider, now, can_look)

    with swapped(effect, "_after_ambiguity", again):
        yield


@contextmanager
def doubt_forgotten() -> Iterator[None]:
    """A timeout is taken for a refusal."""
    intact = effects._refusal

    def sure(job: Any, provider: Any, row: Any, error: Any, sends: int) -> ledger.Refusal:
        error.failure = replace(error.failure, ambiguous=False, retryable=True)
        return intact(job, provider, replace(row, status=effect.EffectStatus.PLANNED), error, sends)

    with swapped(effects, "_refusal", sure):
        yield


@contextmanager
def shared_effect_unfenced() -> Iterator[None]:
    """Of two jobs with one effect, the refusal of one denies what the other has sent."""
    begin = (" AND sends = CAST(e.value->>3 AS INTEGER)", "")
    refuse = ("AND sends = CAST(e.value->>2 AS INTEGER) ", "")
    owner = ("AND COALESCE(sender, job_id) = CAST(e.value->>0 AS /*id*/)", "")
    with respelled(ledger.sql, "begin", begin), respelled(ledger.sql, "refuse", refuse, owner), nobody_waits():
        yield


@contextmanager
def nobody_waits() -> Iterator[None]:
    """A send that is under way is taken for one in doubt, as if its sender were gone."""
    intact = effect_open.next_step

    def impatient(row: Any, *rest: Any, **given: Any) -> Any:
        return intact(replace(row, is_held=False), *rest, **given)

    with swapped(effect_open, "next_step", impatient):
        yield


@contextmanager
def silence_is_a_no() -> Iterator[None]:
    """A keeper whose question is not answered takes that for 'I do not know it', and takes the mark back."""
    intact = verify.find_at_provider

    async def guess(kernel: Any, provider: Any, row: Any, find: Any, **given: Any) -> str | None:
        try:
            return await intact(kernel, provider, row, find, **given)
        except CallError:
            return None

    with swapped(verify, "find_at_provider", guess):
        yield


@contextmanager
def keys_joined() -> Iterator[None]:
    """The parts of a key are joined as they are: two effects that read alike are one, and one is never sent."""

    def joined(app: str, key: Any) -> effect.EffectKey:
        text = key if isinstance(key, str) else "/".join(map(str, key))
        return effect.EffectKey(f"{app}:/{text}")

    with swapped(effect_open, "effect_key", joined):
        yield


@contextmanager
def evidence_not_asked_for() -> Iterator[None]:
    """Whatever `send` returns is taken for the provider's id."""

    async def sent(row: Any, send: Any) -> Any:
        await send(row.token)

    with swapped(effects, "_run_send", sent):
        yield


@contextmanager
def answer_not_kept() -> Iterator[None]:
    """An answer that was paid for is used, and not stored."""

    async def put(tx: Any, kept: Any, now: int) -> None:
        return None

    with swapped(answers, "put", put):
        yield


@contextmanager
def attempt_in_the_paid_key() -> Iterator[None]:
    """Every call has a key of its own, so that the provider charges for each."""
    intact, numbers = paid.paid_key, itertools.count()

    def fresh(app: str, run: Any, tries: int) -> str:
        return intact(app, run, tries + next(numbers))

    with swapped(paid, "paid_key", fresh):
        yield

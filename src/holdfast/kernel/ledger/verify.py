"""Asks providers whether they know the ids of what is marked as sent. Looks, corrects and takes back; never sends.

    known                            the mark stands
    known, but the mark is wrong     it gets the time that it lacks, or the id that the token gives
    unknown, and that is proof       both marks are cleared, and the job is reopened (`kernel.reopen`)
    unknown, and its job still runs  nothing is concluded before the job has ended
    unknown, and only a person can   set aside for a person
    unknown, and long ago            the provider may have forgotten it: nothing is concluded

A provider that knows none of several ids is not the one that gave them (another account, another mailbox): then nothing
is concluded either, and somebody is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple

from holdfast.core.effect import AskPerson, EffectRow, Send, after_unknown_id
from holdfast.core.provider import Provider
from holdfast.core.redact import redact_text
from holdfast.errors import CallError
from holdfast.kernel.effects import ask_person, find_at_provider
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.ledger.reopen import StillRuns, lock_ended, reopen
from holdfast.stores.clock import uuid7
from holdfast.stores.seam import Tx
from holdfast.tables import audit, effects

SCAN = 200
"""How many rows of the ledger a sample looks at."""
PAGE = 100
ACTOR = "kernel"


class Verdict(StrEnum):
    """What came of a mark whose id the provider does not know."""

    CORRECTED = "corrected"
    TAKEN_BACK = "taken_back"
    PERSON = "person"
    LATER = "later"
    NOTHING = "nothing"


class Unknown(NamedTuple):
    """An effect that is marked with an id which its provider does not know."""

    key: str
    provider: str
    provider_id: str
    verdict: Verdict


class Unanswered(NamedTuple):
    """A provider that did not answer: what is marked as sent there is not verified."""

    provider: str
    message: str


async def verify_once(kernel: Kernel) -> int:
    """Verify a sample of what each provider that knows its ids has sent within its memory; return how many were asked.

    The sample begins at a random moment of that time, with the effects of the jobs that came next."""
    asked = 0
    for provider in checkable(kernel):
        age_ms = int(kernel.dice.draw() * provider.retention_s * 1_000)
        first_job = uuid7(max(0, kernel.now() - age_ms), kernel.dice)
        async with kernel.store.reading() as tx:
            limit = kernel.tuning.verify_batch
            rows = await effects.sample(tx, provider.name, first_job, scan=SCAN, limit=limit)
        with suppress(CallError):  # the provider is not well; another round asks again
            await verify(kernel, provider, rows)
        asked += len(rows)
    return asked


async def verify_all(kernel: Kernel) -> list[Unknown | Unanswered]:
    """Verify everything that is marked as sent, as far as providers remember it."""
    findings: list[Unknown | Unanswered] = []
    for provider in checkable(kernel):
        after = ""
        while True:
            async with kernel.store.reading() as tx:
                rows = await effects.page(tx, provider.name, after, PAGE)
            try:
                findings += await verify(kernel, provider, rows)
            except CallError as error:
                findings.append(Unanswered(provider.name, redact_text(error.failure.message)))
                break
            if len(rows) < PAGE:
                break
            after = rows[-1].key
    return findings


def checkable(kernel: Kernel) -> list[Provider]:
    return [provider for provider in kernel.registry.providers.values() if provider.has_id is not None]


async def verify(kernel: Kernel, provider: Provider, rows: Sequence[EffectRow]) -> list[Unknown]:
    """Ask the provider about each of these; return those whose id it does not know. A provider that does not answer
    raises CallError, and nothing is concluded from what it said before."""
    known, suspects = 0, []
    for row in rows:
        if not isinstance(after_unknown_id(row, provider, kernel.now()), Send | AskPerson):
            continue  # whatever it said would prove nothing
        known_id = await find_at_provider(kernel, provider, row, provider.lookup)
        if known_id == row.provider_id and row.marked_at is not None:
            known += 1
        else:
            suspects.append((row, known_id))
    is_stranger = len(suspects) > 1 and known == 0 and all(known_id is None for _, known_id in suspects)
    return [await _judge(kernel, provider, row, known_id, is_stranger) for row, known_id in suspects]


async def _judge(
    kernel: Kernel, provider: Provider, row: EffectRow, known_id: str | None, is_stranger: bool
) -> Unknown:
    if known_id is not None:
        verdict = await _correct(kernel, row, known_id)
    elif is_stranger:
        verdict = Verdict.NOTHING
    else:
        verdict = await _conclude(kernel, provider, row)
    assert row.provider_id is not None, "only what has an id is verified"
    key = redact_text(row.key)
    kernel.watch.log("effect.unknown_to_provider", key=key, provider=provider.name, verdict=str(verdict))
    kernel.watch.count("effects_unknown_to_provider", provider=provider.name, verdict=str(verdict))
    return Unknown(key, provider.name, row.provider_id, verdict)


async def _conclude(kernel: Kernel, provider: Provider, row: EffectRow) -> Verdict:
    """It was not sent, unless a person has said that it was, or only a person can know."""
    step = after_unknown_id(row, provider, kernel.now())
    why = step.why if isinstance(step, AskPerson) else None
    async with kernel.store.transaction() as tx:
        if any(entry.action == "effect.answered" for entry in await audit.of_subject(tx, _subject(row))):
            why = "a person said that it was sent, and the provider does not know its id"
        try:
            job = await lock_ended(tx, row)
        except StillRuns:
            return Verdict.LATER
        now = kernel.now()
        if why is None and await effects.unsent(tx, row.key, row.sends, now, was=row.provider_id):
            await _write(tx, row, "effect.taken_back", now)
            if job is not None:
                await reopen(kernel, tx, row, job, now)
            return Verdict.TAKEN_BACK
    if why is None:
        return Verdict.NOTHING  # somebody sent or marked it meanwhile
    await ask_person(kernel, row.key, why, was=row.provider_id)
    return Verdict.PERSON


async def _correct(kernel: Kernel, row: EffectRow, known_id: str) -> Verdict:
    async with kernel.store.transaction() as tx:
        now = kernel.now()
        if not await effects.backfill(tx, row.key, known_id, now, was=row.provider_id):
            return Verdict.NOTHING
        await _write(tx, row, "effect.id_corrected", now)
    return Verdict.CORRECTED


async def _write(tx: Tx, row: EffectRow, action: str, now: int) -> None:
    data = {"provider": row.provider, "provider_id": row.provider_id}
    await audit.write(tx, ACTOR, action, _subject(row), data, now)


def _subject(row: EffectRow) -> str:
    return f"effect:{row.key}"

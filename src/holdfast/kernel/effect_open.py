"""Opens an effect: its row is read, written if it is new, and where nothing is in the way the send begins.

Attempts that get there at the same time share the commit. Of several that want the same effect one begins, and the
others wait for what becomes of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.core.effect import (
    EffectKey,
    EffectRow,
    EffectStatus,
    Send,
    Step,
    WaitForSender,
    effect_key,
    former_spelling,
    next_step,
    token_of,
    was_ambiguous,
)
from holdfast.core.job import Claimed
from holdfast.core.provider import Provider
from holdfast.errors import BadDeclaration, LeaseLost, StoreConflict, StoreUnavailable
from holdfast.kernel.call import may_call_now
from holdfast.kernel.gather import write_together
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.record import CallPermit
from holdfast.stores.seam import Tx
from holdfast.tables import effects, providers
from holdfast.tables.effects import Begin, Plan, planned_row
from holdfast.tables.providers import ProviderRow

ASK_AGAIN_S = (0.2, 1.0, 3.0)
"""How long after a lost answer of the database to ask again."""


class Intent(NamedTuple):
    """An effect that an attempt wants to bring about."""

    job: Claimed
    provider: Provider
    key: EffectKey
    former_key: str | None
    is_ambiguous: bool
    """Whether other keys had the same former spelling."""
    can_look: bool
    permit_id: str

    def plan(self, *, afresh: bool = False, begins: bool = False) -> Plan:
        job, provider = self.job, self.provider
        about = (job.id, job.kind, job.stage, provider.name, provider.effects, job.epoch, job.attempt)
        former_key = None if afresh else self.former_key
        return Plan(self.key, token_of(self.key), *about, former_key, self.permit_id if begins else None)


class SendStarted(NamedTuple):
    """A send that the ledger knows of: with which permit, since when, and how many sends it had with this one."""

    permit: CallPermit
    at: int
    sends: int


class EffectPlan(NamedTuple):
    """What the ledger says of an effect, what is to be done, and whether a send has begun already."""

    row: EffectRow
    step: Step
    started: SendStarted | None


Gates = Mapping[str, ProviderRow]
EffectPlans = dict[str, EffectPlan | Exception]
"""By the intents' permits."""


def intent_of(
    kernel: Kernel, job: Claimed, provider: Provider, key: str | tuple[object, ...], *, can_look: bool
) -> Intent:
    """What `job` means by `key`: the effect of that name within the job's app."""
    try:
        spelled = effect_key(app_of(kernel, job.kind), key)
    except ValueError as error:
        raise BadDeclaration(str(error)) from None
    return Intent(job, provider, spelled, former_spelling(key), was_ambiguous(key), can_look, kernel.new_id())


def app_of(kernel: Kernel, kind: str) -> str:
    """The app that declares a job kind; of one that is declared no longer, what its name says."""
    return kernel.registry.app_names.get(kind) or kind.rpartition(".")[0]


async def open_effect(kernel: Kernel, intent: Intent) -> EffectPlan:
    """Plan, and begin if nothing is in the way. A commit whose answer was lost is asked about while we know that we
    have sent nothing: later, its 'sending' would be a doubt, perhaps one for a person."""
    for pause_s in ASK_AGAIN_S:
        try:
            return await write_together(kernel, _open_all, intent)
        except StoreUnavailable:
            await asyncio.sleep(pause_s)
    return await write_together(kernel, _open_all, intent)


async def _open_all(kernel: Kernel, intents: Sequence[Intent]) -> list[EffectPlan | Exception]:
    """Open each effect. Where nothing hinders the provider the send begins in the same commit; elsewhere the provider
    is asked for permission first. An effect that nobody has written of yet is begun by the insert of its row,
    unless another process writes of one of them at this very moment."""
    try:
        return await _open_at_once(kernel, intents, inserts=True)
    except StoreConflict:
        return await _open_at_once(kernel, intents, inserts=False)


async def _open_at_once(kernel: Kernel, intents: Sequence[Intent], *, inserts: bool) -> list[EffectPlan | Exception]:
    async with kernel.store.transaction() as tx:
        now = kernel.now()
        gates = await providers.read_all(tx, {intent.provider.name for intent in intents})
        kernel.gates |= {name: row.state.gate for name, row in gates.items()}
        free = [intent for intent in intents if may_call_now(intent.provider, gates[intent.provider.name], now)]
        opened = await _begin_new(tx, free, gates, now) if inserts else {}
        known = [intent for intent in intents if intent.permit_id not in opened]
        if known:
            opened |= await _open_known(kernel, tx, known, gates, now)
    return [opened[intent.permit_id] for intent in intents]


async def _begin_new(tx: Tx, intents: Sequence[Intent], gates: Gates, now: int) -> EffectPlans:
    """Begin what is new; of several jobs with one effect, the first. The rows are as they were before they began."""
    first: dict[str, Intent] = {}
    for intent in intents:
        first.setdefault(intent.key, intent)
    if not first:
        return {}
    plans = {key: intent.plan(begins=True) for key, intent in first.items()}
    begun = await effects.begin_new(tx, plans.values(), now)
    return {first[key].permit_id: _started(first[key], planned_row(plans[key]), gates, now, 1) for key in begun}


async def _open_known(kernel: Kernel, tx: Tx, intents: Sequence[Intent], gates: Gates, now: int) -> EffectPlans:
    """Read each effect's row, written if it is new, and begin what is to be sent. What nobody holds the lease for any
    more is answered with `LeaseLost`."""
    rows = await _plan(kernel, tx, intents, now)
    steps = [_step(intent, row, now) for intent, row in zip(intents, rows, strict=True)]
    first: dict[str, Intent] = {}
    for intent, row, step in zip(intents, rows, steps, strict=True):
        if isinstance(step, Send) and may_call_now(intent.provider, gates[intent.provider.name], now):
            first.setdefault(row.key, intent)  # of several jobs with one effect, one begins
    sends = {row.key: row.sends for row in rows}
    begins = [begin_of(intent.job, key, sends[key], intent.permit_id) for key, intent in first.items()]
    begun = await effects.begin(tx, begins, now) if begins else {}
    opened: EffectPlans = {}
    for intent, row, step in zip(intents, rows, steps, strict=True):
        if first.get(row.key, intent) is not intent:
            opened[intent.permit_id] = EffectPlan(row, WaitForSender(), None)
        elif row.key not in first:
            opened[intent.permit_id] = EffectPlan(row, step, None)
        elif row.key not in begun:
            opened[intent.permit_id] = lease_lost(intent.job)
        else:
            opened[intent.permit_id] = _started(intent, row, gates, now, begun[row.key])
    return opened


def _started(intent: Intent, row: EffectRow, gates: Gates, now: int, sends: int) -> EffectPlan:
    permit = CallPermit(intent.permit_id, gates[intent.provider.name].state.generation)
    return EffectPlan(row, Send(), SendStarted(permit, now, sends))


async def _plan(kernel: Kernel, tx: Tx, intents: Sequence[Intent], now: int) -> list[EffectRow]:
    """The row of each effect, locked. A row that an earlier release wrote stays the effect's: its token is what the
    provider knows."""
    await effects.plan(tx, [intent.plan() for intent in intents], now)
    former = [intent.former_key for intent in intents if intent.former_key is not None]
    rows = await effects.lock_all(tx, [*(intent.key for intent in intents), *former])
    afresh = [intent for intent in intents if _row_of(kernel, intent, rows) is None]
    if afresh:  # a row of the former spelling is there, but it is somebody else's
        await effects.plan(tx, [intent.plan(afresh=True) for intent in afresh], now)
        rows |= await effects.lock_all(tx, [intent.key for intent in afresh])
    planned = [_row_of(kernel, intent, rows) for intent in intents]
    return [row for row in planned if row is not None]


def _row_of(kernel: Kernel, intent: Intent, rows: dict[str, EffectRow]) -> EffectRow | None:
    if intent.key in rows:
        return rows[intent.key]
    former = rows.get(intent.former_key or "")
    if former is None or app_of(kernel, former.kind) != app_of(kernel, intent.job.kind):
        return None
    is_own = former.job_id == intent.job.id
    return former if is_own or not intent.is_ambiguous else None


def _step(intent: Intent, row: EffectRow, now: int) -> Step:
    if row.status is EffectStatus.SENDING and row.ticket == intent.permit_id:
        return Send()  # our own beginning, whose answer was lost: nothing was sent under it
    is_sender = row.sender == intent.job.id
    return next_step(row, intent.provider, intent.job.epoch, now, can_look=intent.can_look, is_sender=is_sender)


def begin_of(job: Claimed, key: str, sends: int, permit_id: str) -> Begin:
    return Begin(key, job.id, job.attempt, job.epoch, sends, permit_id)


def lease_lost(job: Claimed) -> LeaseLost:
    return LeaseLost(f"Job {job.id} is no longer held by attempt {job.attempt}; nothing was sent.")

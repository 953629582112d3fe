"""Clears up effects nobody is working on and nobody knows the fate of. Looks and backfills; never sends."""

from __future__ import annotations

from holdfast.core.effect import AskPerson, EffectRow, LookLater, LookUp, after_not_found, arrived_by, next_step
from holdfast.core.floor import BOTTOM
from holdfast.core.provider import Provider
from holdfast.core.redact import redact_text
from holdfast.errors import CallError
from holdfast.kernel.effects import ask_person, look_up
from holdfast.kernel.kernel import Kernel
from holdfast.tables import effects

BATCH = 50


async def reconcile_once(kernel: Kernel) -> int:
    """Look up every doubtful effect whose job is not about to do so itself; returns how many were cleared."""
    with kernel.floors.times("in_doubt").scan(kernel.now) as scan:
        async with kernel.store.reading() as tx:
            before = kernel.now() - int(kernel.tuning.reconcile_grace_s * 1_000)
            doubtful = await effects.in_doubt(tx, before, BATCH, scan.start or BOTTOM)
        scan.reached(doubtful[0][1] if doubtful else before)
    return sum([await _clear(kernel, effect) for effect, _ in doubtful])


async def _clear(kernel: Kernel, effect: EffectRow) -> bool:
    provider = kernel.registry.provider(effect.provider)
    step = next_step(effect, provider, effect.epoch, kernel.now(), can_look=provider.lookup is not None)
    if isinstance(step, LookUp):
        try:
            known_id = await look_up(kernel, provider, effect, provider.lookup, job=None, alert=step.alert)
        except CallError:
            return False  # the provider is not well; the next round asks again
        if known_id is None:
            await _not_found(kernel, provider, effect)
        return True
    if isinstance(step, LookLater):
        return False
    why = step.why if isinstance(step, AskPerson) else "its job ended before the outcome was known"
    await ask_person(kernel, effect.key, why, was=effect.provider_id)
    kernel.watch.log("effect.in_review", key=redact_text(effect.key), provider=provider.name, reason=why)
    return True


async def _not_found(kernel: Kernel, provider: Provider, effect: EffectRow) -> None:
    """The provider has no record of it. Where that is proof, a replay may send; elsewhere a person decides."""
    now = kernel.now()
    step = after_not_found(effect, provider, now)
    if isinstance(step, AskPerson):
        await ask_person(kernel, effect.key, step.why, was=effect.provider_id)
        return
    if now < arrived_by(effect, provider, now):
        return  # it may still arrive, and by the time of a replay its token may be forgotten: look again later
    async with kernel.store.transaction() as tx:
        await effects.unsent(tx, effect.key, effect.sends, kernel.now(), was=effect.provider_id)
    kernel.watch.log("effect.not_sent", key=redact_text(effect.key), provider=provider.name)

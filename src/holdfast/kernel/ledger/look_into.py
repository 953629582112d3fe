"""Looks into one doubtful effect on behalf of an attempt that may not send it again. Never sends."""

from __future__ import annotations

from holdfast.core.effect import LookLater, LookUp, Skip, next_step
from holdfast.core.job import Claimed
from holdfast.core.provider import Provider
from holdfast.errors import ProviderHeld
from holdfast.kernel.effects import look_up
from holdfast.kernel.kernel import Kernel
from holdfast.tables import effects


async def look_into(kernel: Kernel, job: Claimed, provider: Provider, key: str) -> str | None:
    """The provider's id of the effect, if it has one: what it knows of a doubtful send is written to the ledger.

    None: it has none, or it cannot be asked. Raises `ProviderHeld` while the last send may still arrive."""
    async with kernel.store.transaction() as tx:
        row = await effects.lock(tx, key)
    if row is None or row.provider != provider.name:
        return None
    can_look = provider.lookup is not None
    step = next_step(row, provider, job.epoch, kernel.now(), can_look=can_look)
    if isinstance(step, Skip):
        return step.provider_id
    if isinstance(step, LookLater):
        raise ProviderHeld(provider.name, "an earlier send may still arrive", step.at)
    if not isinstance(step, LookUp):
        return None
    return await look_up(kernel, provider, row, provider.lookup, job=job, alert=step.alert)

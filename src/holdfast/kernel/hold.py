"""Watches the breakers: lets trial jobs through when a cooldown is over, probes held providers, and drains what was
parked with a ramp once a breaker has closed, so that a recovering provider meets a trickle and not a stampede.

Why so: docs/decisions/0002-parking-in-the-claim.md
"""

from __future__ import annotations

import asyncio

from holdfast.core import breaker
from holdfast.core.breaker import BreakerPolicy, BreakerState, Gate
from holdfast.core.floor import SLACK_MS
from holdfast.core.provider import Provider
from holdfast.core.redact import redact_text
from holdfast.errors import NotFound
from holdfast.kernel.call import room
from holdfast.kernel.hands.pausing import release, resumed_kinds
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.record import write_late
from holdfast.stores.seam import Tx
from holdfast.tables import audit, jobs, providers
from holdfast.tables.providers import ProviderRow, WatchedProvider

RAMP_MAX = 2_000
PROBE_TIMEOUT_S = 10.0
REASON_LENGTH_MAX = 1_000


async def hold_once(kernel: Kernel) -> int:
    """One look at every breaker that needs attention; returns how many jobs were let through.

    A breaker of another system on the same database is left to that system, which knows its policy. One that nobody
    declares any more, but that jobs of ours wait for, is ours. Kinds that were paused are let go here too."""
    await write_late(kernel)  # what the breakers have not been told of yet
    released = 0
    async with kernel.store.reading() as tx:  # one look for both: it is made once a second for ever
        watched, resumed = await _need_attention(kernel, tx), await resumed_kinds(kernel, tx)
    for name, view in watched.items():
        if name not in kernel.registry.providers and not view.ours:
            continue
        provider = kernel.registry.provider(name)
        healthy = await _probe(kernel, provider, is_awaited=view.first is not None)
        released += await _attend(kernel, provider, healthy)
    return released + sum([await release(kernel, kind) for kind in resumed])


async def _need_attention(kernel: Kernel, tx: Tx) -> dict[str, WatchedProvider]:
    """Breakers that are not closed, and closed ones that still hold jobs back; each with whether jobs of ours wait."""
    with kernel.floors.parked.claim(kernel.now) as claiming:
        passed = kernel.now() - SLACK_MS
        floors = {name: at for (name, _), at in claiming.floors.items()}
        views = await providers.read_watched(tx, kernel.queues, floors)
        claiming.reached = {(view.name, 0): passed if view.first is None else view.first for view in views}
    return {view.name: view for view in views if view.gate != Gate.CLOSED or view.first is not None}


def policy_of(provider: Provider) -> BreakerPolicy:
    """A breaker that a person opened, or that an earlier release declared, must close again without a policy too."""
    return provider.breaker or BreakerPolicy()


async def _probe(kernel: Kernel, provider: Provider, *, is_awaited: bool) -> bool | None:
    """Ask a provider whether it is well, in hold mode, and where no job is left that could try it; None if that is not
    the way it closes."""
    policy = policy_of(provider)
    if provider.probe is None or (is_awaited and policy.mode == "trials"):
        return None
    async with kernel.store.reading() as tx:
        row = await providers.read(tx, provider.name)
    if not breaker.awaits_probe(row.state, policy, kernel.now()):
        return None
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            return await provider.probe()
    except Exception:  # a probe may fail in any way its client can: each means "not well"
        return False


async def _attend(kernel: Kernel, provider: Provider, healthy: bool | None) -> int:
    policy = policy_of(provider)
    now = kernel.now()
    async with kernel.store.transaction() as tx:
        row = await providers.lock(tx, provider.name, now)
        state = breaker.tick(row.state, policy, now)
        if healthy is not None:
            state = breaker.probe(state, policy, now, healthy)
        await providers.swap(tx, provider.name, row.state, state, now)
        kernel.gates[provider.name] = state.gate
        if state.gate is not row.state.gate:
            kernel.watch.count("breaker_changes", provider=provider.name, gate=state.gate)
            kernel.watch.log("breaker", provider=provider.name, breaker_state=state.gate, reason=state.reason)
        if state.gate is Gate.HALF_OPEN:
            return await _let_trials_through(kernel, tx, provider, state, now)
        if state.gate is Gate.CLOSED:
            return await _drain(kernel, tx, provider, row, now)
    return 0


async def _let_trials_through(kernel: Kernel, tx: Tx, provider: Provider, state: BreakerState, now: int) -> int:
    room = breaker.trial_room(state, policy_of(provider), now)
    if room <= 0:
        return 0
    return await _let_through(kernel, tx, provider, room, now, is_trial=True)


async def _drain(kernel: Kernel, tx: Tx, provider: Provider, row: ProviderRow, now: int) -> int:
    """Let some of what is parked through: more each time, and never more than the provider's limits have room for."""
    if now - row.ramp_at < kernel.tuning.ramp_every_s * 1_000:
        return 0
    fresh = now - row.ramp_at > kernel.tuning.ramp_every_s * 10_000
    size = kernel.tuning.ramp_first if fresh or row.ramp == 0 else min(RAMP_MAX, row.ramp * 2)
    free = room(provider, row, now)
    size = size if free is None else min(size, free)
    if size == 0:
        return 0
    released = await _let_through(kernel, tx, provider, size, now, is_trial=False)
    await providers.set_ramp(tx, provider.name, size if released else 0, now)
    return released


async def _let_through(kernel: Kernel, tx: Tx, provider: Provider, limit: int, now: int, *, is_trial: bool) -> int:
    floor = kernel.floors.parked_since(provider.name)
    queues = await jobs.unpark(tx, provider.name, limit, now, floor, is_trial=is_trial)
    for queue in sorted(queues):
        await tx.notify(f"queue:{queue}")
    return queues.total()


async def force(kernel: Kernel, name: str, *, open: bool, actor: str, reason: str) -> None:
    """A person opens or closes a breaker by hand; audited, with the reason redacted. Closing it also ends a wait that
    the provider asked for: a header may be wrong, and a person may know better."""
    reason = redact_text(reason)[:REASON_LENGTH_MAX]
    async with kernel.store.transaction() as tx:
        now = kernel.now()
        if name not in kernel.registry.providers:
            raise NotFound(f"No loaded app declares a provider named '{name}'.")
        row = await providers.lock(tx, name, now)
        state = breaker.force_open(row.state, now, reason) if open else breaker.force_close(row.state, now)
        await providers.swap(tx, name, row.state, state, now)
        if not open:
            await providers.lift_gate(tx, name)
        action = "breaker.opened" if open else "breaker.closed"
        await audit.write(tx, actor, action, f"breaker:{name}", {"reason": reason}, now)
        await tx.notify("breakers")

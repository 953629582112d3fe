"""Pauses kinds and queues, and lets them go on: a person's hand on the claim.

    queued --its kind is paused: parked by the claim, hold `pause`--> waits --resumed, released--> queued
    queued --its queue is paused: the claim does not look there-----> waits --resumed------------> queued

Every claim of every process reads the pauses in its own statement, so that nothing begins once a pause is committed;
what has begun is finished. Waiting spends no attempt, and deadlines run. Jobs of a paused kind leave the ready index,
as those of a held provider do, and cost no later claim; a paused queue costs nothing. A kind's stages may have changed
by the time it goes on: the provider of each is written when it is let go.

Why so: docs/decisions/0042-hands-on-the-claim.md
"""

from __future__ import annotations

from holdfast.core.control import Sort
from holdfast.core.floor import BOTTOM, SLACK_MS
from holdfast.core.redact import redact_text
from holdfast.errors import NotAllowed, NotFound
from holdfast.kernel.kernel import Kernel
from holdfast.stores.seam import Tx
from holdfast.tables import audit, pauses
from holdfast.tables.pauses import Pause

BATCH = 1_000
REASON_LENGTH_MAX = 1_000


async def set_paused(kernel: Kernel, sort: Sort, name: str, *, paused: bool, actor: str, reason: str) -> Pause:
    """Pause a kind or a queue, or let it go on; audited, with the reason redacted. Once more is refused: who wonders
    must find who did it first, and why."""
    known = kernel.registry.kinds if sort == "kind" else kernel.registry.queues
    async with kernel.store.transaction() as tx:
        now = kernel.now()
        if name not in known:
            raise NotFound(f"No loaded app has a {sort} named '{name}'.")
        if await pauses.is_paused(tx, sort, name) == paused:
            raise NotAllowed(f"The {sort} '{name}' is {'paused already' if paused else 'not paused'}.")
        pause = Pause(sort, name, paused, now, actor, redact_text(reason)[:REASON_LENGTH_MAX])
        await pauses.put(tx, pause)
        action = f"{sort}.{'paused' if paused else 'resumed'}"
        await audit.write(tx, actor, action, f"{sort}:{name}", {"reason": pause.reason}, now)
        await tx.notify("breakers")
        if not paused:
            for queue in [name] if sort == "queue" else []:
                await tx.notify(f"queue:{queue}", to_all=True)
    return pause


async def resumed_kinds(kernel: Kernel, tx: Tx) -> list[str]:
    """The kinds of ours that were paused and are no longer: a claim may have set a job aside just before."""
    over = [pause.name for pause in await pauses.read_every(tx) if pause.sort == "kind" and not pause.is_paused]
    return [kind for kind in over if kind in kernel.registry.kinds]


async def release(kernel: Kernel, kind: str) -> int:
    """Let go what was set aside for a kind that is not paused any more; returns how many jobs that were."""
    stages = {stage.name: stage.plan.provider for stage in kernel.registry.kinds[kind].stages}
    released = 0
    while True:
        with kernel.floors.times("paused", kind).scan(kernel.now) as scan:
            now = kernel.now()
            async with kernel.store.transaction() as tx:
                rows = await pauses.release(tx, kind, stages, BATCH, now, scan.start or BOTTOM)
                for queue in sorted({row.queue for row in rows}):
                    await tx.notify(f"queue:{queue}")
            scan.reached(max(row.updated_at for row in rows) if len(rows) >= BATCH else now - SLACK_MS)
        released += len(rows)
        if len(rows) < BATCH:
            return released

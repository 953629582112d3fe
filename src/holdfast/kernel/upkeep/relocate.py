"""Brings jobs to where the loaded code looks for them, after a deploy or a rollback that moved that place.

    a kind's queue has changed:   in the old queue, which nobody serves --> in the queue that the kind has now
    a kind takes turns no more:   in line for a turn that nobody takes  --> queued, as any other

Only where no running worker of other code looks: beside one, both releases keep what is theirs. Leases and deadlines of
jobs in queues that the code names no more are kept all the while, and they are counted (`Kernel.queues`).

Why so: docs/decisions/0009-a-worker-claims-what-it-declares.md
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from holdfast.core.floor import BOTTOM, SLACK_MS
from holdfast.core.job import PRIORITIES
from holdfast.kernel.kernel import Kernel, takes_turns_key
from holdfast.stores.seam import Tx
from holdfast.tables import depth, relocate, workers
from holdfast.tables.depth import QueueCount

BATCH = 1_000
LOOK_S = 60.0
"""So often a process that does not keep looks for queues that its code does not name."""


async def relocate_once(kernel: Kernel) -> int:
    """One batch of each sort; returns how many jobs were brought to where this code looks."""
    async with kernel.store.reading() as tx:
        await find_queues(kernel, tx, again=True)
        since = kernel.now() - workers.FRESH_MS
        served = ",".join(row.queues for row in await workers.read_every(tx) if row.seen_at >= since).split(",")
        elsewhere = {queue: await workers.declaring(tx, queue, since) for queue in kernel.registry.queues}
    moved = sum([await _bring_home(kernel, queue) for queue in sorted(kernel.queues_left.difference(served))])
    for queue, sets in elsewhere.items():
        moved += await _let_go(kernel, queue, frozenset().union(*sets))
    return moved


async def find_queues(kernel: Kernel, tx: Tx, *, again: bool = False) -> None:
    """Learn in which queues of the loaded apps jobs stand that no loaded kind waits in: once in a while, or `again`."""
    if not again and kernel.now() < kernel.queues_looked_at + LOOK_S * 1_000:
        return
    kernel.queues_looked_at = kernel.now()
    apps = {app.name for app in kernel.registry.apps}
    known = {*kernel.registry.queues}
    others = (await _begun_in(kernel, "processing", partial(depth.processing, tx))) - known
    others |= (await _begun_in(kernel, "waiting", partial(depth.waiting, tx))) - known
    while more := await relocate.queues(tx, known | others):
        others |= more
    kernel.queues_left = {queue for queue in others if queue.partition(".")[0] in apps}


async def _begun_in(kernel: Kernel, state: str, read: Callable[[int], Awaitable[list[QueueCount]]]) -> set[str]:
    """The queues of jobs that have begun, from the floor on, which moves up to the first of them."""
    with kernel.floors.times("queues", state).scan(kernel.now) as scan:
        now = kernel.now()
        rows = await read(scan.start or BOTTOM)
        scan.reached(min((row.first for row in rows), default=now - SLACK_MS))
    return {row.queue for row in rows}


async def _bring_home(kernel: Kernel, queue: str) -> int:
    homes = {kind.name: kind.queue for kind in kernel.registry.kinds.values()}
    async with kernel.store.transaction() as tx:
        moved = Counter(await relocate.bring_home(tx, queue, homes, BATCH, kernel.now()))
        for home in sorted(moved):
            await tx.notify(f"queue:{home}", to_all=True)
    if moved:
        kernel.watch.log("queue.left", queue=queue, jobs=moved.total(), homes=sorted(moved))
    return moved.total()


async def _let_go(kernel: Kernel, queue: str, declared: frozenset[str]) -> int:
    """What was enqueued for turns that neither this code nor a running worker takes."""
    stages = _stages_without_turns(kernel, queue, declared)
    gone = 0
    for priority in PRIORITIES if stages else ():
        with kernel.floors.times("turns left", queue, str(priority), every_s=5 * LOOK_S).scan(kernel.now) as scan:
            now = kernel.now()
            async with kernel.store.transaction() as tx:
                let_go = await relocate.let_go(tx, queue, priority, stages, BATCH, now, scan.start or BOTTOM)
                if let_go:
                    await tx.notify(f"queue:{queue}", to_all=True)
            scan.reached(BOTTOM if let_go else now - SLACK_MS)
        gone += let_go
    return gone


def _stages_without_turns(kernel: Kernel, queue: str, declared: frozenset[str]) -> Mapping[str, str | None]:
    kinds = [kind for kind in kernel.registry.kinds.values() if kind.queue == queue and kind.turns is None]
    free = [kind for kind in kinds if takes_turns_key(kind.name) not in declared]
    return {f"{kind.name} {name}": stage.plan.provider for kind in free for name, stage in kind.by_name.items()}

"""Wakes what is parked inside of a stage: parents whose children have ended, jobs whose answer is there or whose time
is over. And takes the news down: what a parent that was cancelled or died has spawned is cancelled.

Everything here is found in rows, so that a wake-up that was missed comes with the next round. A hint makes it soon.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from holdfast.core.family import JOIN_KEY
from holdfast.core.floor import BOTTOM, SLACK_MS
from holdfast.core.job import State
from holdfast.core.outcome import Resumed, Withdrawn
from holdfast.errors import NotAllowed
from holdfast.kernel.compose.waiting import hand_over
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.settle import Ending
from holdfast.kernel.turn import end
from holdfast.stores.seam import Tx
from holdfast.tables import answers, callbacks, jobs, joins, leases

BATCH = 200
LOOK_S = 10.0
PARENT = "its parent"
Read = Callable[[int], Awaitable[list[tuple[str, int]]]]
"""Reads from a floor on: keys, each with where it stands, in the order of that."""


async def wake_once(kernel: Kernel) -> int:
    """One batch of each; returns how much was done."""
    async with kernel.store.reading() as tx:
        ready = await _find(kernel, "ready", partial(joins.ready, tx, BATCH))
        awaited = await _find(kernel, "awaited", partial(callbacks.awaited, tx, BATCH))
        left = await _find(kernel, "left", partial(joins.left, tx, BATCH))
        late = await _find(kernel, "late", partial(_read_late, kernel, tx))
    done = sum([await _wake_parent(kernel, join_id) for join_id, _ in ready])
    for key, _ in awaited:
        try:
            done += await hand_over(kernel, key)
        except NotAllowed:
            continue  # left to a process whose code declares the stage
    for join_id, _ in left:
        done += await _cancel_children(kernel, join_id)
    return done + (await _end_waits(kernel, since=late[0][1]) if late else 0)


async def _find(kernel: Kernel, name: str, read: Read) -> list[tuple[str, int]]:
    """What is to be woken, from the floor on, which moves up to the first of it: that may be left to another."""
    with kernel.floors.times("wake", name, every_s=LOOK_S).scan(kernel.now) as scan:
        now = kernel.now()
        rows = await read(scan.start or BOTTOM)
        scan.reached(rows[0][1] if rows else now - SLACK_MS)
    return rows


async def _read_late(kernel: Kernel, tx: Tx, floor: int) -> list[tuple[str, int]]:
    late = await leases.unanswered(tx, kernel.queues, kernel.now(), BATCH, floor)
    return [(job.id, job.run_at) for job, _ in late]


async def _wake_parent(kernel: Kernel, join_id: str) -> bool:
    """Once: the join is marked in the commit that queues the parent. One that is not parked yet finds out itself."""
    async with kernel.store.transaction() as tx:
        locked = await jobs.lock_waiting(tx, JOIN_KEY + join_id)
        if locked is None:
            return False
        job, provider = locked
        if not await joins.move(tx, join_id, "sealed", "joined", kernel.now()):
            return False
        await end(kernel, tx, [Ending(job, Resumed(), expected=State.WAITING, provider=provider)])
        await kernel.failpoint("wake.before_commit")
    return True


async def _cancel_children(kernel: Kernel, join_id: str) -> int:
    """A batch of them; when none is left, the join is gone."""
    async with kernel.store.transaction() as tx:
        children = await joins.unended(tx, join_id, BATCH)
        if not children:
            return int(await joins.move(tx, join_id, "left", "gone", kernel.now()))
        ends = [Ending(job, Withdrawn(PARENT), expected=State(job.state), provider=p) for job, p in children]
        await end(kernel, tx, ends)
        await kernel.failpoint("wake.before_commit")
    return len(children)


async def _end_waits(kernel: Kernel, since: int) -> int:
    """Jobs that wait inside of a stage, and whose time is over: the stage runs again and is told so."""
    async with kernel.store.transaction() as tx:
        late = await leases.unanswered(tx, kernel.queues, kernel.now(), BATCH, since)
        parked = await answers.parked(tx, [job.id for job, _ in late]) if late else set()
        inside = [(job, provider) for job, provider in late if job.id in parked]
        over = [Ending(job, Resumed(), expected=State.WAITING, provider=provider) for job, provider in inside]
        if over:
            await end(kernel, tx, over)
    return len(over)

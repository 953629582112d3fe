"""Rings for due jobs: a message that says "look at this row", and nothing else.

The row decides. A bell that comes early, late or twice finds nothing to claim; one that is lost is rung again, because
its job is still due. So bells are transient, live as long as it takes until they are rung again, and are the first
thing that a full broker may drop.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from functools import partial

from holdfast.errors import TransportDown, TransportError
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.loop import repeat
from holdfast.kernel.upkeep.floors import watch_claims
from holdfast.kernel.upkeep.taking_turns import take_turns
from holdfast.tables import lanes
from holdfast.transports.seam import Message, Transport

DOORBELL = "holdfast.doorbell"
RUN = "holdfast.run"
WINDOW = 1_000


def doorbell(queue: str) -> str:
    """The broker's queue of bells for one app. Each has its own: a fleet must not eat the bells of another."""
    return f"{DOORBELL}.{queue}"


@dataclass
class RungRecently:
    """What was rung for in one queue: each attempt of a job once in `again_s`.

    Kept in memory only. A dispatcher that restarts, or a second one, rings once more than needed."""

    queue: str
    again_s: float = 30.0
    window: int = WINDOW
    rung: dict[tuple[str, int], int] = field(default_factory=dict)

    def fresh(self, due: list[tuple[str, int]], now: int) -> list[tuple[str, int]]:
        """Those of the due jobs that were not rung for lately. What is due no longer is forgotten."""
        self.rung = {job: self.rung[job] for job in due if job in self.rung}
        return [job for job in due if now - self.rung.get(job, -(10**15)) >= self.again_s * 1_000]


async def ring_once(kernel: Kernel, bells: RungRecently) -> int:
    """Ring for what is due in one queue; returns how many bells the broker took."""
    assert kernel.transport is not None, "a doorbell needs a transport"
    await take_turns(kernel, [bells.queue], bells.window)
    now = kernel.now()
    with kernel.floors.claims.claim(kernel.now) as claiming:
        async with kernel.store.transaction() as tx:
            declared = kernel.registry.declared
            due, claiming.reached = await lanes.due_ids(tx, bells.queue, declared, now, bells.window, claiming.floors)
    watch_claims(kernel)
    fresh = bells.fresh(due, now)
    answers = await asyncio.gather(*[_ring(kernel, kernel.transport, bells.queue, job_id) for job_id, _ in fresh])
    taken = [job for job, trouble in zip(fresh, answers, strict=True) if trouble is None]
    bells.rung.update(dict.fromkeys(taken, now))
    down = next((trouble for trouble in answers if isinstance(trouble, TransportDown)), None)
    if down is not None:
        raise down
    return len(taken)


async def ring_for_ever(kernel: Kernel, again_s: float, stop: asyncio.Event) -> None:
    """Ring for every queue of the loaded apps, at once when something is enqueued and by polling."""
    async with asyncio.TaskGroup() as group:
        for queue in kernel.registry.queues:
            step = partial(ring_once, bells=RungRecently(queue, again_s))
            group.create_task(repeat(kernel, f"ring:{queue}", step, kernel.tuning.poll_s, stop, f"queue:{queue}"))


async def _ring(kernel: Kernel, transport: Transport, queue: str, job_id: str) -> TransportError | None:
    """Unroutable means that no worker has opened this doorbell yet: it is rung when one has."""
    try:
        await transport.publish(_bell(kernel.new_uuid4(), queue, job_id))
    except TransportError as trouble:
        return trouble
    return None


def _bell(bell_id: str, queue: str, job_id: str) -> Message:
    """A task message as Celery's protocol, version 2, defines it."""
    embedded = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    return Message(
        id=bell_id,
        destination=doorbell(queue),
        body=json.dumps([[job_id, queue], {}, embedded]).encode(),
        type=RUN,
        headers={"lang": "py", "task": RUN, "id": bell_id, "root_id": bell_id},
        content_type="application/json",
        correlation_id=bell_id,
        persistent=False,
    )

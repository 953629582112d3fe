"""Starts new jobs key by key: before a claim, some of those that wait for their turn are let into its lanes.

    enqueued --parked, hold `turn`--> waits --its key's turn--> queued, as any other --claimed--> ...

The claim itself knows nothing of keys, and an app without `fair_by` or `limit` does none of this. No more jobs are let
in than the claim has room for: whoever comes later waits for a round, not for a backlog. Several workers may do it at
once: they skip each other's rows, and each goes round by itself; where limits count, one after the other.

A worker keeps some places for keys that it runs nothing of (`let_newcomers_in`, `engines/newcomers.py`): a key's first
job waits neither for another's jobs to end nor for a turn that is under way.

Why so: docs/decisions/0028-turns-are-taken-before-the-claim.md
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence

from holdfast.core.job import Claimed
from holdfast.core.turns import allowed, share
from holdfast.kernel.kernel import FairKinds, Kernel
from holdfast.stores.seam import Tx
from holdfast.tables import turns

ROUNDS_MAX = 10
"""How often a worker asks for further keys in one turn, where those it met may start nothing."""


async def take_turns(kernel: Kernel, queues: Sequence[str], room: int) -> int:
    """Let in what may start now, for a claim of up to `room`; returns how many jobs that were."""
    fair = kernel.registry.fair
    if fair is None or room <= 0:
        return 0
    started = 0
    for lane in await _lanes(kernel, fair, queues, room):
        left = room - lane.admitted - started
        if left > 0:
            started += await _start(kernel, fair, lane, left)
    return started


async def let_newcomers_in(kernel: Kernel, queues: Sequence[str], room: int, held: Collection[str]) -> list[str]:
    """Let in one job of each key that is not among `held`, up to `room`; returns their ids, for whoever claims them."""
    fair = kernel.registry.fair
    if fair is None or room <= 0:
        return []
    # Whoever waits behind a backlog stands in a lane that the last turn came upon: one round trip less. Its oldest has
    # not become older since; who stands elsewhere is looked for as ever.
    known = kernel.waiting_lanes.get(tuple(queues), ())
    if ids := await _start_in(kernel, fair, known, room, held):
        return ids
    asked = {lane[:2] for lane in known}
    others = [lane for lane in await _lanes(kernel, fair, queues, room) if lane[:2] not in asked]
    return await _start_in(kernel, fair, others, room, held)


async def _start_in(
    kernel: Kernel, fair: FairKinds, lanes: Sequence[turns.WaitingLane], room: int, held: Collection[str]
) -> list[str]:
    ids: list[str] = []
    for lane in lanes:
        if len(ids) < room:
            ids += await _start_newcomers(kernel, fair, lane, room - len(ids), held)
    return ids


def key_of(kernel: Kernel, job: Claimed) -> str | None:
    """The key under which a job that runs here has had its turn; None if its kind takes none, or it cannot be read."""
    kind = kernel.registry.kinds.get(job.kind)
    if kind is None or kind.turns is None:
        return None
    try:
        return kind.turns.key_of(kind.name, json.loads(job.payload), job.owner)
    except ValueError:
        return None


async def _lanes(kernel: Kernel, fair: FairKinds, queues: Sequence[str], room: int) -> list[turns.WaitingLane]:
    """Where jobs wait, looked for from the floors on (`core.floor`): dead versions lie below them."""
    served = [queue for queue in queues if queue in fair.queues]
    with kernel.floors.turns.claim(kernel.now) as looking:
        async with kernel.store.reading() as tx:
            waiting, looking.reached = await turns.lanes(tx, served, room, looking.floors, kernel.now())
    kernel.waiting_lanes[tuple(queues)] = waiting
    return waiting


async def _start(kernel: Kernel, fair: FairKinds, lane: turns.WaitingLane, room: int) -> int:
    """Go round the keys of one lane, from where this process stopped last, while there is room and one may start."""
    place = (lane.queue, lane.priority)
    known, hungry = kernel.hungry.get(place, frozenset[str]()), set[str]()
    started = 0
    # Without limits nothing is counted before it is written: each statement that lets jobs in is right by itself, and
    # three round trips less are most of what a newcomer waits for.
    has_limits = bool(fair.rules.limits)
    async with kernel.store.transaction() if has_limits else kernel.store.single_statement() as tx:
        if has_limits:
            await turns.lock(tx, lane.queue)
        for _ in range(ROUNDS_MAX):
            left = room - started
            after, owed = kernel.turn_after.get(place, (turns.BEFORE_ALL, 0))
            keys = await turns.next_keys(tx, lane, after, left)
            if not keys:
                break
            if owed:
                keys = [after, *(key for key in keys[: left - 1] if key != after)]
            most = await _allowances(kernel, tx, fair, keys, left)
            # A key that may have little more is given its turn, and not a part of the room that nobody would use.
            most = {key: most[key] if key in known else min(most[key], fair.rules.weight(key)) for key in keys}
            shares = share(keys, fair.rules, most, left, owed)
            admitted = await turns.admit(tx, lane, shares.jobs, fair.stages, kernel.now()) if shares.jobs else ()
            taken = Counter(job.key for job in admitted)
            hungry.difference_update(shares.jobs)
            hungry.update(key for key, number in shares.jobs.items() if taken[key] == number)
            known = frozenset(hungry)
            is_cut_short = taken[shares.last] == shares.jobs.get(shares.last)
            kernel.turn_after[place] = shares.last, shares.owed if is_cut_short else 0
            started += taken.total()
            if started >= room or not (len(keys) == left or hungry.intersection(shares.jobs)):
                break
    kernel.hungry[place] = known
    return started


async def _start_newcomers(
    kernel: Kernel, fair: FairKinds, lane: turns.WaitingLane, room: int, held: Collection[str]
) -> list[str]:
    """One job of each key that is not held. The round goes on where it was: this one is nobody's turn."""
    has_limits = bool(fair.rules.limits)
    place = (lane.queue, lane.priority)
    after, _ = kernel.turn_after.get(place, (turns.BEFORE_ALL, 0))
    held = {*held, *kernel.hungry.get(place, ())}  # some of these may be under way to where they are held
    async with kernel.store.single_statement() as tx:
        keys = await turns.next_keys(tx, lane, after, room + len(held))
    new = [key for key in keys if key not in held]
    if not new:
        return []
    async with kernel.store.transaction() if has_limits else kernel.store.single_statement() as tx:
        if has_limits:
            await turns.lock(tx, lane.queue)
        most = await _allowances(kernel, tx, fair, new, 1)
        shares = dict.fromkeys([key for key in new if most[key]][:room], 1)
        admitted = await turns.admit(tx, lane, shares, fair.stages, kernel.now()) if shares else ()
    return [job.id for job in admitted]


async def _allowances(kernel: Kernel, tx: Tx, fair: FairKinds, keys: Sequence[str], room: int) -> dict[str, int]:
    """How many jobs each key may start at most."""
    limited = [key for key in keys if fair.rules.limit(key) is not None]
    known = await turns.begun(tx, limited, kernel.key_counts, kernel.now()) if limited else {}
    return {key: allowed(fair.rules.limit(key), known.get(key), room) for key in keys}

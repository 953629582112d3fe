"""Starts new jobs key by key: before a claim, some of those that wait for their turn are let into its lanes.

    enqueued --parked, hold `turn`--> waits --its key's turn--> queued, as any other --claimed--> ...

The claim itself knows nothing of keys, and an app without `fair_by` or `limit` does none of this. No more jobs are let
in than the claim has room for: whoever comes later waits for a round, not for a backlog. Several workers may do it at
once: they skip each other's rows, and each goes round by itself; where limits count, one after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from holdfast.core.turns import MINUTE_MS, allowed, share
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
    async with kernel.store.reading() as tx:
        waiting = await turns.lanes(tx, [queue for queue in queues if queue in fair.queues], room, kernel.now())
    started = 0
    for lane in waiting:
        left = room - lane.admitted - started
        if left > 0:
            started += await _start(kernel, fair, lane, left)
    return started


async def _start(kernel: Kernel, fair: FairKinds, lane: turns.WaitingLane, room: int) -> int:
    """Go round the keys of one lane, from where this process stopped last, while there is room and one may start."""
    place = (lane.queue, lane.priority)
    started = 0
    # Without limits nothing is counted before it is written: each statement that lets jobs in is right by itself, and
    # three round trips less are most of what a newcomer waits for.
    has_limits = bool(fair.rules.limits)
    async with kernel.store.transaction() if has_limits else kernel.store.alone() as tx:
        if has_limits:
            await turns.lock(tx, lane.queue)
        for _ in range(ROUNDS_MAX):
            left = room - started
            after, owed = kernel.turn_after.get(place, ("", 0))
            keys = await turns.next_keys(tx, lane, after, left)
            if not keys:
                break
            if owed:
                keys = [after, *(key for key in keys[: left - 1] if key != after)]
            most = await _allowances(tx, fair, keys, left, kernel.now())
            shares = share(keys, fair.rules, most, left, owed)
            taken = Counter(await turns.admit(tx, lane, shares.jobs, fair.stages, kernel.now()) if shares.jobs else ())
            is_cut_short = taken[shares.last] == shares.jobs.get(shares.last)
            kernel.turn_after[place] = shares.last, shares.owed if is_cut_short else 0
            started += taken.total()
            if started >= room or not (len(keys) == left or _is_used_up(shares.jobs, taken)):
                break
    return started


async def _allowances(tx: Tx, fair: FairKinds, keys: Sequence[str], room: int, now: int) -> dict[str, int]:
    """How many jobs each key may start at most."""
    limited = [key for key in keys if fair.rules.limit(key) is not None]
    known = await turns.begun(tx, limited, now - MINUTE_MS) if limited else {}
    return {key: allowed(fair.rules.limit(key), known.get(key), room) for key in keys}


def _is_used_up(shares: Mapping[str, int], taken: Mapping[str, int]) -> bool:
    """Whether a key has used all that it was given, and may want what others have left."""
    return any(taken.get(key) == number for key, number in shares.items())

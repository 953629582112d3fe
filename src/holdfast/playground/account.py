"""The account: what was accepted, by the playground's book, and where it is now, by the systems' own databases.

accepted = done + waiting + dead + cancelled + lost          lost and twice are 0, whatever was broken
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.job import State
from holdfast.playground.book import Book
from holdfast.system import OpenSystem
from holdfast.tables import ops

WAITING = (State.QUEUED, State.PROCESSING, State.WAITING)


@dataclass(frozen=True, slots=True)
class PlaygroundAccount:
    """Numbers of jobs, and of effects that were performed. `held` are those of `waiting` that wait for a provider."""

    accepted: int
    done: int
    waiting: int
    running: int
    held: int
    dead: int
    cancelled: int
    lost: int
    performed: int
    twice: int


async def read_account(book: Book, systems: Sequence[OpenSystem]) -> PlaygroundAccount:
    """Count, now. A job that a database does not know any more is `lost`."""
    entries = await asyncio.to_thread(book.read)
    states: Counter[str] = Counter()
    held = 0
    for each in systems:
        ids = entries.receipts.get(each.name, [])
        if ids:
            async with each.kernel.store.reading() as tx:
                for row in await ops.states_of(tx, ids):
                    states[row.state] += row.jobs
                    held += row.held or 0
    open_here = {each.name for each in systems}
    accepted = sum(len(ids) for system, ids in entries.receipts.items() if system in open_here)
    return PlaygroundAccount(
        accepted=accepted,
        done=states[State.SUCCEEDED],
        waiting=sum(states[state] for state in WAITING),
        running=states[State.PROCESSING],
        held=held,
        dead=states[State.DEAD],
        cancelled=states[State.CANCELLED],
        lost=accepted - states.total(),
        performed=entries.deliveries,
        twice=entries.twice,
    )

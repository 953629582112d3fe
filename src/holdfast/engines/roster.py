"""Which worker answers a ring, and which one polls when: agreed by all without a word between them.

Everybody hears every ring, with the same ticket, and knows the same names, from the table of workers. The name that
ranks first for a ticket answers; the others rest. So a job costs one claim, however many idle workers there are. Polls,
the safety net, go round in the same way: one worker in each `poll_s`, by the database's clock.

A list that is a little old is harmless. A ring that goes to a worker which has just died, or is full, is made up for by
the next poll, or passed on to all.

Why so: docs/decisions/0025-wake-one-sweep-once.md
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

ROUND_S_MAX = 30.0
"""Nobody waits longer for its own turn to poll."""


class Roster:
    """The workers of one kind of code, by name. Alone until told otherwise."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._names: Sequence[str] = (name,)

    def __len__(self) -> int:
        return len(self._names)

    def update(self, names: Sequence[str]) -> None:
        """These are there, and this worker."""
        self._names = sorted({*names, self.name})

    def share(self) -> float:
        """A number from 0 to 1 of this worker's own: so that not all do the same at once."""
        return _weight(self.name, "")[0] / 255

    def answers(self, ticket: str) -> bool:
        """Whether a ring with this ticket is for this worker."""
        return self.rank(ticket) == 0

    def rank(self, ticket: str) -> int:
        """How many come before this worker for a ring with this ticket."""
        own = _weight(self.name, ticket)
        return sum(_weight(name, ticket) > own for name in self._names)

    def until_poll_s(self, now_ms: int, poll_s: float) -> float:
        """How long until this worker's next turn to poll."""
        slot_ms = max(1.0, 1_000 * min(poll_s, ROUND_S_MAX / len(self)))
        round_ms = slot_ms * len(self)
        at_ms = slot_ms * (self._names.index(self.name) + 0.5)
        wait_ms = (at_ms - now_ms % round_ms) % round_ms
        # A turn that begins now was this one: clocks are compared again and again, and may step back a little.
        return (wait_ms if wait_ms > slot_ms / 4 else wait_ms + round_ms) / 1_000


def _weight(name: str, ticket: str) -> bytes:
    return blake2b(f"{ticket} {name}".encode(), digest_size=8).digest()

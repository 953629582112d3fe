"""How much one user may ask for: so many a minute, so many unfinished at once. Over it is 429 with the time to wait.

    await hold_to(kernel, tx, who, UserLimits(per_minute=60, unfinished=100), usage, "uploads")

A system counts its own things (`usage`); the rule, the lock that makes it exact and the answer are here. It is asked
where something new is about to be written, so that a repeated key is answered however much was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from holdfast.kernel.kernel import Kernel
from holdfast.stores.seam import Tx
from holdfast.tables import users

if TYPE_CHECKING:
    from holdfast.http.auth import Principal

MINUTE_MS = 60_000
UNFINISHED_WAIT_S = 30
EXACT_BELOW = 100
LOOK_EVERY_MS = 1_000
USERS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class UserLimits:
    """What one user may have; 0 is any number."""

    per_minute: int = 0
    unfinished: int = 0

    def __bool__(self) -> bool:
        return bool(self.per_minute or self.unfinished)


class Used(NamedTuple):
    """What a user has had: how many within the minute, when the first of those was, how many are not finished."""

    made: int
    first_at: int | None
    unfinished: int


Usage = Callable[[Tx, str, int], Awaitable[Used]]
"""`usage(tx, user, since)`: what this user has made since then, and has unfinished."""


async def hold_to(kernel: Kernel, tx: Tx, who: Principal, limits: UserLimits, usage: Usage, noun: str) -> None:
    """Raise 429 if one more would be over a limit. Exact: requests of one user wait for each other here.

    The caller writes what is new in the same transaction."""
    if limits:
        await users.lock(tx, who.sub)
        now = kernel.now()
        check(limits, await usage(tx, who.sub, now - MINUTE_MS), now, noun)


class Room:
    """Spares those who are far from every limit the lock and the count: what they used is read once a second, and what
    this process admitted since is added. A small limit, or one that is half used, is always counted exactly."""

    def __init__(self, kernel: Kernel, limits: UserLimits, usage: Usage) -> None:
        self._kernel, self._limits, self._usage = kernel, limits, usage
        self._known: dict[str, tuple[int, int]] = {}
        self._half = min((limit // 2 for limit in (limits.per_minute, limits.unfinished) if limit), default=0)

    async def admits(self, sub: str) -> bool:
        """Whether one more of this user needs no count. It is taken for admitted then."""
        if self._half < EXACT_BELOW // 2:
            return not self._limits
        now = self._kernel.now()
        if sub not in self._known or now - self._known[sub][1] >= LOOK_EVERY_MS:
            async with self._kernel.store.reading() as tx:
                used = await self._usage(tx, sub, now - MINUTE_MS)
            if len(self._known) >= USERS_MAX:
                self._known.clear()
            self._known[sub] = (max(used.made, used.unfinished), now)
        taken, looked_at = self._known[sub]
        self._known[sub] = (taken + 1, looked_at)
        return taken < self._half


def check(limits: UserLimits, used: Used, now: int, noun: str) -> None:
    """The rule alone, for a look before anything is received."""
    from holdfast.http.buckets import too_many  # a worker counts by this module too, and needs no web framework

    if limits.per_minute and used.made >= limits.per_minute:
        wait_s = max(1, math.ceil(((used.first_at or now) + MINUTE_MS - now) / 1_000))
        raise too_many(f"You may make {limits.per_minute} {noun} a minute.", wait_s)
    if limits.unfinished and used.unfinished >= limits.unfinished:
        detail = f"You have {used.unfinished} unfinished {noun}; wait until some are done."
        raise too_many(detail, UNFINISHED_WAIT_S)

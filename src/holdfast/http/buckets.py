"""How much one caller may ask of this process: token buckets of requests, places of event streams, memory of bodies.

    requests with a valid token    the user's bucket
    everything else                the address's bucket: no token, or none that is valid

Kept per process and forgotten with it: they keep one caller from taking the process away from the others. Limits that
must hold over all processes are counted in the database (`http.limits`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from time import monotonic

from starlette.types import Scope

from holdfast.http.problem import Problem
from holdfast.settings import Settings

BURST_S = 10
"""A bucket holds what this many seconds bring."""
KEYS_MAX = 10_000
HELD_PER_CALLER, HELD_MAX = 64 << 20, 512 << 20
"""Bytes of bodies that are on their way or at work: of one caller, and in all."""
ADDRESS_LENGTH_MAX = 64
"""More than any address has, with its zone."""
CALLER = "holdfast.caller"
"""Where the scope of a request keeps who was authenticated."""


@dataclass(slots=True)
class Buckets:
    """One token bucket a key, refilled with `per_second` tokens; 0 is no limit."""

    per_second: float
    now: Callable[[], float] = monotonic
    _filled: dict[str, tuple[float, float]] = field(default_factory=dict)

    def wait_s(self, key: str) -> float:
        """How long until a token is there; 0 if there is one. Takes none."""
        if not self.per_second:
            return 0.0
        return max(0.0, (1 - self._tokens(key)) / self.per_second)

    def take(self, key: str) -> float:
        """Take a token if there is one; else say how long to wait for it."""
        wait_s = self.wait_s(key)
        if self.per_second and not wait_s:
            if key not in self._filled and len(self._filled) >= KEYS_MAX:
                self._forget()
            self._filled[key] = (self._tokens(key) - 1, self.now())
        return wait_s

    def _tokens(self, key: str) -> float:
        full = self.per_second * BURST_S
        tokens, at = self._filled.get(key, (full, 0.0))
        return min(full, tokens + (self.now() - at) * self.per_second)

    def _forget(self) -> None:
        """Drop the keys whose bucket is full again, and the older half if those are not enough."""
        full = self.per_second * BURST_S
        self._filled = {key: kept for key, kept in self._filled.items() if self._tokens(key) < full}
        if len(self._filled) >= KEYS_MAX:
            older = sorted(self._filled, key=lambda key: self._filled[key][1])[: KEYS_MAX // 2]
            for key in older:
                del self._filled[key]


class Callers:
    """The buckets and stream places of one application."""

    def __init__(self, settings: Settings, now: Callable[[], float] = monotonic) -> None:
        self.users = Buckets(settings.requests_per_user, now)
        self.addresses = Buckets(settings.requests_per_address, now)
        self._streams_max = settings.streams_max
        self._streams_per_user = settings.streams_per_user
        self._streams: Counter[str] = Counter()
        self._held: Counter[str] = Counter()

    def admit_user(self, scope: Scope, sub: str) -> None:
        """A caller with a valid token: counted by name, by name only, and once."""
        if CALLER in scope:
            return
        scope[CALLER] = sub
        if wait_s := self.users.take(sub):
            raise too_many("You send more requests than one user may; slow down.", wait_s)

    def check_address(self, scope: Scope) -> None:
        """Refuse an address that has used up what it may ask without a valid token."""
        if wait_s := self.addresses.wait_s(address_of(scope)):
            raise too_many("Your address sends more requests without a valid token than it may; slow down.", wait_s)

    def charge_address(self, scope: Scope) -> None:
        """What was asked without a valid token is charged to the address."""
        if CALLER not in scope:
            self.addresses.take(address_of(scope))

    @contextmanager
    def streaming(self, scope: Scope) -> Iterator[None]:
        """A place for an event stream; 429 if the caller has all that one may have, or all are taken."""
        who = str(scope.get(CALLER) or address_of(scope))
        if self._streams_per_user and self._streams[who] >= self._streams_per_user:
            raise too_many(f"You have {self._streams_per_user} event streams open; close one first.", BURST_S)
        if self._streams_max and self._streams.total() >= self._streams_max:
            raise too_many("All places for event streams are taken; try again later.", BURST_S)
        self._streams[who] += 1
        try:
            yield
        finally:
            self._streams[who] -= 1
            if not self._streams[who]:
                del self._streams[who]

    def hold(self, scope: Scope, size: int, own: int) -> str:
        """Count bytes of a body that is kept in memory, of whose request `own` are counted before; for whom. 429 where
        a caller's requests hold too much between them; one alone is let, however large it may be."""
        who = str(scope.get(CALLER) or address_of(scope))
        if self._held[who] > own and self._held[who] + size > HELD_PER_CALLER:
            raise too_many("You send too much at once; let what you began come to its end.", BURST_S)
        if self._held.total() > own and self._held.total() + size > HELD_MAX:
            raise too_many("Too much is sent here at once; try again later.", BURST_S)
        self._held[who] += size
        return who

    def release(self, who: str, size: int) -> None:
        """What was held is not any more."""
        self._held[who] -= size
        if not self._held[who]:
            del self._held[who]


def address_of(scope: Scope) -> str:
    """The client's address; of IPv6 the network, for every subscriber has 2^64 addresses."""
    client = scope.get("client")
    return subscriber_of(str(client[0])) if client else ""


def subscriber_of(text: str) -> str:
    """Whose an address is, as far as it can tell: itself, or its network. What a proxy names otherwise is all one."""
    return _subscriber_of(text) if len(text) <= ADDRESS_LENGTH_MAX else ""


@lru_cache(maxsize=1_024)
def _subscriber_of(text: str) -> str:
    try:
        address = ip_address(text)
    except ValueError:
        return ""
    if not isinstance(address, IPv6Address):
        return str(address)
    return str(address.ipv4_mapped or IPv6Address(int(address) >> 64 << 64))


def too_many(detail: str, wait_s: float) -> Problem:
    """429, with the time to wait in whole seconds."""
    return Problem(429, "RATE_LIMITED", detail, headers={"Retry-After": str(max(1, math.ceil(wait_s)))})

"""Where a scan of an index may begin: at a remembered lower bound instead of the index's left end.

While any transaction on the server stays open, PostgreSQL keeps the dead versions of every row, and a scan from the
left end walks over all of them. What has been found empty once stays empty, but for rows that enter below: they come
from transactions that commit late, from hosts whose clocks differ, from older code. So a floor is a hint and never
more: a scan from the very bottom comes round after a while, or after twenty times what the last one took, whichever is
longer; any error forgets the floor; and whoever knows of a row that enters below lowers it. What a look reaches holds
for every scan that was under way beside it: that one may not have seen what the look saw, and does not raise the floor
over it.

Why so: docs/decisions/0016-one-turn.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

BOTTOM = 0
"""Below every key that is a time."""
SLACK_MS = 500
"""How long a row may take from the reading of the clock to its commit without entering below a floor."""
LOOK_MS = 1_000
LOOK_SHARE = 20
"""A look from the bottom takes at most this part of the time."""
LOOK_WAIT_MS_MAX = 60_000
"""A look may have taken long because its process was paused: that says nothing about the next one."""
QUICK_MS = 50
"""A look that takes longer than this is made beside the claims, and not by one of them."""
LATER = -1
"""In place of a priority: the lane of what is not due yet, or has come back, in the order of `run_at`."""

Lane = tuple[str, int]
"""A queue and a priority."""
Floors = Mapping[Lane, int]
NO_FLOORS: Floors = MappingProxyType({})
K = TypeVar("K", int, str)


@dataclass(slots=True)
class Rhythm:
    """When the next look from the bottom is due. `every_ms` apart, or twenty times what the last one took."""

    every_ms: int = LOOK_MS
    looked_at: int | None = None
    took_ms: int = 0

    def is_due(self, now: int) -> bool:
        """Also after a clock that was set back: then nobody knows when the last look was."""
        if self.looked_at is None or now < self.looked_at:
            return True
        return now >= self.looked_at + max(self.every_ms, min(LOOK_SHARE * self.took_ms, LOOK_WAIT_MS_MAX))

    def begin(self, now: int) -> None:
        """One of several that would look now is enough."""
        self.looked_at = now

    def end(self, began: int, now: int) -> None:
        self.looked_at, self.took_ms = now, max(0, now - began)

    @property
    def is_quick(self) -> bool:
        return self.took_ms <= QUICK_MS


class Scan(Generic[K]):
    """One scan from a floor. Whoever scans says with `reached` from where on the next one must look."""

    __slots__ = ("next", "start")

    def __init__(self, start: K | None) -> None:
        self.start: K | None = start  # None: from the very bottom
        self.next: K | None = None

    def reached(self, key: K) -> None:
        self.next = key


class Floor(Generic[K]):
    """The floor of one statement that is repeated now and then; every so often it starts at the bottom by itself."""

    def __init__(self, every_ms: int) -> None:
        self._rhythm = Rhythm(every_ms)
        self._at: K | None = None
        self._resets = 0

    @property
    def at(self) -> K | None:
        """Where it stands, for a statement that only follows the one whose floor it is; None: at the bottom."""
        return self._at

    @contextmanager
    def scan(self, clock: Callable[[], int]) -> Iterator[Scan[K]]:
        """Inside: run the statement from `start`, and say what it `reached`. An error forgets the floor."""
        began, resets = clock(), self._resets
        scan: Scan[K] = Scan(None if self._at is None or self._rhythm.is_due(began) else self._at)
        try:
            yield scan
        except BaseException:
            self._at = None
            self._resets += 1
            raise
        if scan.next is not None:
            if self._resets == resets:
                self._at = scan.next
            elif self._at is not None:  # a look has ended meanwhile: what it reached is not passed over
                self._at = min(self._at, scan.next)
        if scan.start is None:
            self._rhythm.end(began, clock())
            self._resets += 1


class Seen(NamedTuple):
    """What a claim saw of one lane: how many rows, the highest key among them, and the lowest of those that it left."""

    lane: Lane
    rows: int
    highest: int
    lowest_left: int | None


def reached(lanes: Sequence[Lane], seen: Mapping[Lane, Seen], limit: int, now: int) -> dict[Lane, int]:
    """From where on the next claim must look, for every lane that this one came to. Lanes are scanned in their order
    until `limit` rows are found in all: the one in which that happened goes on where it stopped, those after it were
    not looked at, and those before it have nothing left."""
    floors: dict[Lane, int] = {}
    rows = 0
    for lane in lanes:
        scan = seen.get(lane)
        rows += scan.rows if scan else 0
        end = scan.highest if scan and rows >= limit else now - SLACK_MS
        floors[lane] = min(end, scan.lowest_left) if scan and scan.lowest_left is not None else end
        if rows >= limit:
            break
    return floors


def lowest(*floors: Floors) -> Floors:
    """The lowest of each lane."""
    lowest_keys: dict[Lane, int] = {}
    for keys in floors:
        for lane, key in keys.items():
            lowest_keys[lane] = min(key, lowest_keys.get(lane, key))
    return lowest_keys


@dataclass(slots=True)
class Claiming:
    """A claim that is under way: its number, and from where it scans each lane (a lane without a floor, from the
    bottom). Whoever claims says what it `reached`, and which rows have `entered` lanes, no lower than that."""

    serial: int
    floors: Floors
    looks_since: int | None
    """When it began, if it is the look from the bottom itself."""
    reached: Floors = field(default_factory=dict)
    entered: Floors = field(default_factory=dict)


class Lanes:
    """The floors of a process's claims. Several claims may be under way at a time: a floor that is lowered while one of
    them scans, by a row that enters or by what a look reaches, is not raised again by that one.

    The look from the bottom is one of the claims while it is quick, else it is made beside them (`begin_look`)."""

    def __init__(self, every_ms: int = LOOK_MS, *, beside: bool = True) -> None:
        self.floors: dict[Lane, int] = {}
        self._rhythm = Rhythm(every_ms)
        self._beside = beside
        self._serial = 0
        self._under_way: set[int] = set()
        self._lowered: list[tuple[int, Lane, int]] = []

    @contextmanager
    def claim(self, clock: Callable[[], int]) -> Iterator[Claiming]:
        """Inside: scan, commit, and say what was reached. Whatever breaks it off forgets every floor: nobody knows what
        was written."""
        claiming = self.begin(clock())
        try:
            yield claiming
        except BaseException:
            self.forget()
            raise
        self.end(claiming, clock())

    def begin(self, now: int) -> Claiming:
        self._serial += 1
        self._under_way.add(self._serial)
        if self._rhythm.is_due(now) and (self._rhythm.is_quick or not self._beside):
            self._rhythm.begin(now)
            return Claiming(self._serial, {}, now)
        return Claiming(self._serial, dict(self.floors), None)

    def end(self, claiming: Claiming, now: int) -> None:
        if claiming.serial not in self._under_way:
            return  # everything was forgotten meanwhile
        is_look = claiming.looks_since is not None
        self.lower(lowest(claiming.entered, claiming.reached) if is_look else claiming.entered)
        self._under_way.remove(claiming.serial)
        if claiming.looks_since is not None:
            self._rhythm.end(claiming.looks_since, now)
        self.floors.update(claiming.reached)
        for since, lane, key in self._lowered:
            if since >= claiming.serial:
                self.floors[lane] = min(key, self.floors.get(lane, key))
        oldest = min(self._under_way, default=self._serial + 1)
        self._lowered = [entry for entry in self._lowered if entry[0] >= oldest]

    def lower(self, entered: Floors) -> None:
        for lane, key in entered.items():
            if lane in self.floors:
                self.floors[lane] = min(self.floors[lane], key)
            if self._under_way:
                self._lowered.append((self._serial, lane, key))

    def begin_look(self, now: int) -> bool:
        """Whether the caller has to look from the bottom now, beside the claims."""
        if not self.floors or self._rhythm.is_quick or not self._rhythm.is_due(now):
            return False
        self._rhythm.begin(now)
        return True

    def end_look(self, began: int, entered: Floors, now: int) -> None:
        self._rhythm.end(began, now)
        self.lower(entered)

    def forget(self) -> None:
        """The next claim looks from the bottom."""
        self.floors = {}
        self._rhythm = Rhythm(self._rhythm.every_ms)
        self._under_way, self._lowered = set(), []


class FloorBook:
    """Every floor that a process remembers. Nothing but speed rests on it."""

    def __init__(self) -> None:
        self.claims = Lanes()
        self.outbox = Lanes()
        self.turns = Lanes(beside=False)
        """Where jobs wait for their turn, in the order of `run_at`; the later lane is that of what had it."""
        self.parked = Lanes(10_000, beside=False)
        """A lane for each provider, in the order in which jobs were parked."""
        self._named: dict[tuple[str, ...], Floor[Any]] = {}

    def parked_since(self, provider: str) -> int:
        """From where on to look for jobs that are parked for a provider."""
        return self.parked.floors.get((provider, 0), BOTTOM)

    def times(self, *name: str, every_s: float = 60.0) -> Floor[int]:
        """The floor of a statement that goes up by a time or a number."""
        return self._named.setdefault(name, Floor(int(every_s * 1_000)))

    def ids(self, *name: str, every_s: float = 600.0) -> Floor[str]:
        """The floor of a statement that goes up by an id."""
        return self._named.setdefault(name, Floor(int(every_s * 1_000)))

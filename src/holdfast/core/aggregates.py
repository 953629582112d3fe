"""Up to which number everything of a busy aggregate has gone out, so that a relay's claim need not begin before it.

A claim asks of each message whether an older one of its aggregate is pending. While a snapshot is held, all that were
ever pending lie in front of the answer. What a process has seen published it need not look at again, but for messages
that are committed late, under lower numbers: the order of an aggregate rests on those being met. So this is no hint, as
a floor is. A number that a look has seen counts once every transaction that was writing messages after that look has
ended, and then only up to what another look still sees below it.

    look n     all below 70 was published      candidate 70
    look n+1   writers: a b
    look n+2   writers: b c                    a has ended
    look n+3   writers: c d; all below 90      whoever could commit below 70 has ended: begin at 70; candidate 90

A message that was set aside counts as pending here, for a person may send it again.

Why so: docs/decisions/0044-own-versions.md
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.core.floor import Rhythm

BUSY = 20
"""Messages of one aggregate that a process has claimed, from which on it is followed."""
KNOWN_MAX, FOLLOWED_MAX = 1_000, 200
LOOK_MS = 250


class AggregateLook(NamedTuple):
    """Who was writing messages, and then the first message of each aggregate that is not published; an aggregate of
    which all are is not among them."""

    writers: frozenset[str]
    first: Mapping[str, int]


@dataclass(slots=True)
class _Aggregate:
    claims: int = 0
    last: int = 0
    candidate: int = 0
    seen_in: int = 0


class Aggregates:
    """What one process remembers of the aggregates whose messages it publishes."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.begins: OrderedDict[str, int] = OrderedDict()
        """From which number on a claim looks for what is pending, of aggregates whose past is long."""
        self._known: OrderedDict[str, _Aggregate] = OrderedDict()
        self._busy: dict[str, None] = {}
        self._rhythm = Rhythm(LOOK_MS)
        self._asked: Mapping[str, int] | None = None
        self._looks = self._since = 0
        self._writers: frozenset[str] = frozenset()

    @contextmanager
    def unless_broken_off(self) -> Iterator[None]:
        """Whatever breaks off what is done inside forgets everything: a database that failed over may have lost
        commits."""
        try:
            yield
        except BaseException:
            self.forget()
            raise

    def claimed(self, messages: Iterable[tuple[str, int]]) -> None:
        """Each with its aggregate and its number."""
        for name, number in messages:
            each = self._known.setdefault(name, _Aggregate())
            self._known.move_to_end(name)
            each.claims, each.last = each.claims + 1, max(each.last, number)
            if each.claims >= BUSY and len(self._busy) < FOLLOWED_MAX:
                self._busy[name] = None
            if name in self.begins:
                self.begins.move_to_end(name)
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    @property
    def is_any_busy(self) -> bool:
        return bool(self._busy)

    def begin_look(self, now: int) -> Mapping[str, int]:
        """The aggregates to look at now, each with the number from which on; none while no look is due, or while one
        is under way."""
        if not self._busy or self._asked is not None or not self._rhythm.is_due(now):
            return {}
        self._rhythm.begin(now)
        self._asked = {name: self.begins.get(name, 0) for name in self._busy}
        self._busy = {}
        return self._asked

    def end_look(self, asked: Mapping[str, int], look: AggregateLook, began: int, now: int) -> None:
        if asked is not self._asked:
            return  # everything was forgotten meanwhile
        self._asked = None
        self._rhythm.end(began, now)
        self._looks += 1
        settled = self._settle(look.writers)
        for name in asked:
            if each := self._known.get(name):
                self._follow(name, each, look.first.get(name, each.last), settled)

    def _settle(self, writers: frozenset[str]) -> int:
        """The look before which everything was seen that counts now: whoever was writing then has ended."""
        settled = 0
        self._writers &= writers
        if not self._writers:
            settled = self._since
            self._writers, self._since = writers, self._looks
        return settled if self._writers else self._looks

    def _follow(self, name: str, each: _Aggregate, first: int, settled: int) -> None:
        if each.candidate:
            if each.seen_in >= settled:
                return
            self.begins[name] = min(each.candidate, first)
            if len(self.begins) > FOLLOWED_MAX:
                self.begins.popitem(last=False)
        each.candidate, each.seen_in = first, self._looks

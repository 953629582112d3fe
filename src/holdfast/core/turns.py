"""Whose turn it is: new jobs are started key by key, so that nobody waits behind another's backlog, and no key has more
of them begun than it may.

A key is the job's owner or a field of its input. A round gives every key with work its weight in jobs; what some keys
leave over goes to the others. A job takes its turn when it is new or replayed: its later stages and its retries are
work that was begun, and go by their age.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

OWNER = "owner"
NOBODY = "-"
"""The key of jobs without one: they share a turn."""
KEY_LENGTH_MAX = 255
MINUTE_MS = 60_000
STARTING_MS = 1_000
"""A claimed job begins within this time, also where the machine is busy: its start is counted for so much longer."""
_OF = "\t"


@dataclass(frozen=True, slots=True)
class Limit:
    """How much of one key may be begun, over all processes. `per`: `owner`, or a field of the input.

    `at_once`: so many jobs of the key between their start and their end, waits for a retry included. `per_minute`: so
    many starts within any sixty seconds."""

    per: str
    at_once: int | None = None
    per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class Turns:
    """`by`: `owner`, or the field of the input that holds the key. A key without a weight has 1. A job that was given
    no owner belongs to the one that its input names, if it has a field of that name."""

    by: str
    weights: Mapping[str, int] = field(default_factory=dict)
    limit: Limit | None = None

    def key_of(self, kind: str, input: Any, owner: str | None) -> str:
        """The key under which a job of the kind waits; that of a kind with a limit is its own. Raises `ValueError`, in
        one sentence, for a value that is no key."""
        value = (owner or _own_field(input)) if self.by == OWNER else _field(input, self.by)
        if value is None or value == "":
            value = NOBODY
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise ValueError(f"the field '{self.by}', which turns go by, is a {type(value).__name__}, not a str or int")
        key = str(value)
        if len(key) > KEY_LENGTH_MAX or not key.isprintable():
            raise ValueError(f"the field '{self.by}', which turns go by, must be a short text of one line")
        return key if self.limit is None else f"{key}{_OF}{kind}"


def turn_at(key: str, now: int) -> int | None:
    """When a job of the key was started, where that is counted: only keys of kinds with a limit name their kind."""
    return now if _OF in key else None


def _own_field(input: Any) -> Any:
    """The owner that the input names, of a job that was given none."""
    value = _field(input, OWNER)
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def _field(input: Any, name: str) -> Any:
    if isinstance(input, Mapping):
        return input.get(name)
    return getattr(input, name, None)


class TurnRules(NamedTuple):
    """What is declared of keys: their weights, and the limits of the kinds that have one."""

    weights: Mapping[str, int]
    limits: Mapping[str, Limit]

    def weight(self, key: str) -> int:
        return self.weights.get(key.partition(_OF)[0], 1)

    def limit(self, key: str) -> Limit | None:
        return self.limits.get(key.partition(_OF)[2])


class KeyUse(NamedTuple):
    """What a key has begun: jobs that have not ended, and starts within the last minute."""

    unended: int
    lately: int


def allowed(limit: Limit | None, begun: KeyUse | None, room: int) -> int:
    """How many more jobs of a key may start now, of `room`."""
    if limit is None:
        return room
    unended, lately = begun or KeyUse(0, 0)
    free = room if limit.at_once is None else limit.at_once - unended
    return max(0, min(room, free, room if limit.per_minute is None else limit.per_minute - lately))


class Share(NamedTuple):
    """How many jobs each key may start, whose turn was the last, and what that one has left of it."""

    jobs: dict[str, int]
    last: str
    owed: int


def share(keys: Sequence[str], rules: TurnRules, most: Mapping[str, int], room: int, owed: int = 0) -> Share:
    """Share the room between keys in the order of their turns: everybody's weight in jobs, round after round, until the
    room is used or nobody may have more. `owed`: what the first key has left of a turn that was cut short."""
    jobs: dict[str, int] = {}
    hungry = [key for key in keys if most[key] > 0]
    while hungry:
        for key in hungry:
            turn, owed = (owed or rules.weight(key)), 0
            taken = min(room, turn, most[key] - jobs.get(key, 0))
            jobs[key] = jobs.get(key, 0) + taken
            room -= taken
            if not room:
                return Share(jobs, key, turn - taken)
        hungry = [key for key in hungry if jobs[key] < most[key]]
    return Share(jobs, keys[-1], 0)

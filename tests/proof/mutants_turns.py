"""Planted bugs about keys that take turns, and about their limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from holdfast.core.turns import Limit
from holdfast.kernel import turn
from holdfast.kernel.upkeep import taking_turns
from holdfast.tables import turns
from tests.proof.plant import Mutant, respelled, swapped

UNENDED = ("j.turn_at IS NOT NULL AND j.finished_at IS NULL", "COALESCE(j.finished_at, 0) = 0")
"""How `begun` says it of jobs that it knows or finds by their key, and of those that were started since."""


@contextmanager
def turn_pointer_lost() -> Iterator[None]:
    """Every round begins with the first key."""
    intact = turns.next_keys

    async def next_keys(tx: Any, lane: Any, after: str, limit: int) -> list[str]:
        return await intact(tx, lane, "", limit)

    with swapped(turns, "next_keys", next_keys):
        yield


@contextmanager
def backlog_let_in_at_once() -> Iterator[None]:
    """More is let in than the claim has room for."""
    intact = turn.take_turns

    async def take_turns(kernel: Any, queues: Sequence[str], room: int) -> int:
        return await intact(kernel, queues, 1_000 if room else 0)

    with swapped(turn, "take_turns", take_turns):
        yield


@contextmanager
def place_lost_with_its_job() -> Iterator[None]:
    """What has ended keeps its place in the limit."""
    with respelled(turns.sql, "begun", *[(text, "j.turn_at IS NOT NULL") for text in UNENDED]):
        yield


@contextmanager
def place_lost_with_its_worker() -> Iterator[None]:
    """A job whose worker has died, or that waits for its retry, has no place any more."""
    with respelled(
        turns.sql, "begun", *[(text, "j.turn_at IS NOT NULL AND j.state = 'processing'") for text in UNENDED]
    ):
        yield


@contextmanager
def minute_forgets_what_has_ended() -> Iterator[None]:
    with respelled(turns.sql, "begun", ("j.turn_at > :since", "j.turn_at > :since AND j.finished_at IS NULL")):
        yield


@contextmanager
def unclaimed_forgotten() -> Iterator[None]:
    """What was let in more than a minute ago, and starts only now, is no start of this minute."""
    with respelled(turns.sql, "begun", ("THEN 1 ELSE 0 END AS lately", "THEN 0 ELSE 0 END AS lately")):
        yield


@contextmanager
def long_runners_forgotten() -> Iterator[None]:
    """What had begun when the key was counted last has no place in the next count."""
    with respelled(turns.sql, "begun", ("j.id = CAST(e.key AS /*id*/)", "j.id = CAST(e.key AS /*id*/) AND 1 = 0")):
        yield


@contextmanager
def starts_elsewhere_unseen() -> Iterator[None]:
    """What others have started since this process counted is not looked for."""
    with respelled(
        turns.sql,
        "begun",
        ("j.turn_at >= CAST(e.value->>0 AS BIGINT)", "j.turn_at >= CAST(e.value->>0 AS BIGINT) AND 1 = 0"),
    ):
        yield


@contextmanager
def limit_for_each_round() -> Iterator[None]:
    """What a key has begun before is not looked at."""

    def allowed(limit: Limit | None, begun: Any, room: int) -> int:
        return room if limit is None else min(room, limit.at_once or room, limit.per_minute or room)

    with swapped(taking_turns, "allowed", allowed):
        yield


@contextmanager
def kept_place_past_the_limit() -> Iterator[None]:
    """Whoever is new to a worker is let in there, whatever runs of its key elsewhere."""
    intact = taking_turns._start_newcomers

    async def start_newcomers(kernel: Any, fair: Any, *rest: Any) -> list[str]:
        unlimited = fair._replace(rules=fair.rules._replace(limits={}))
        return await intact(kernel, unlimited, *rest)

    with swapped(taking_turns, "_start_newcomers", start_newcomers):
        yield


MUTANTS = (
    Mutant(kept_place_past_the_limit, ("S26",), 100),
    Mutant(turn_pointer_lost, ("S26",), 100),
    Mutant(backlog_let_in_at_once, ("S26",), 100),
    Mutant(place_lost_with_its_job, ("L1",), 60),
    Mutant(place_lost_with_its_worker, ("S26",), 60),
    Mutant(minute_forgets_what_has_ended, ("S26",), 60),
    Mutant(unclaimed_forgotten, ("S26",), 200),
    Mutant(limit_for_each_round, ("S26",), 60),
    Mutant(long_runners_forgotten, ("S26",), 60),
    Mutant(starts_elsewhere_unseen, ("S26",), 60),
)

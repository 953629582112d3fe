"""Planted bugs about kinds and queues that a person has paused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from holdfast.kernel import go_on
from holdfast.tables import jobs, pauses
from tests.proof.plant import Mutant, respelled, swapped

KIND = "s.sort = 'kind' AND s.is_paused = 1"
QUEUE = "NOT IN (SELECT s.name FROM holdfast_pauses AS s WHERE s.sort = 'queue' AND s.is_paused = 1)"
ANY = "AND NOT EXISTS (SELECT 1 FROM holdfast_pauses AS s WHERE s.is_paused = 1)"
KIND_AT_ONCE, QUEUE_AT_ONCE = "s.sort = 'kind'", "NOT IN (SELECT s.name FROM paused AS s WHERE s.sort = 'queue')"
ANY_AT_ONCE = "AND NOT EXISTS (SELECT 1 FROM paused)"


@contextmanager
def paused_kind_is_claimed() -> Iterator[None]:
    """The claim does not ask whether a kind is paused."""
    with (
        respelled(jobs.sql, "claim", (KIND, f"{KIND} AND 1 = 0")),
        respelled(jobs.sql, "turn", (KIND_AT_ONCE, f"{KIND_AT_ONCE} AND 1 = 0")),
    ):
        yield


@contextmanager
def paused_queue_is_looked_into() -> Iterator[None]:
    """The lanes of a paused queue are claimed from as any others."""
    with (
        respelled(jobs.sql, "due_lanes", (f"e.value->>0 {QUEUE}", "TRUE")),
        respelled(jobs.sql, "turn", (f"u.q {QUEUE_AT_ONCE}", "TRUE")),
    ):
        yield


@contextmanager
def goes_on_past_a_pause() -> Iterator[None]:
    """A job is gone on with to its next stage although its kind is paused, however long ago it was claimed."""
    with (
        swapped(go_on, "GOES_ON_MS", 10**9),
        respelled(jobs.sql, "end", (ANY, "")),
        respelled(jobs.sql, "turn", (ANY_AT_ONCE, "")),
    ):
        yield


@contextmanager
def resumed_and_forgotten() -> Iterator[None]:
    """What was set aside for a paused kind stays aside when that goes on."""

    async def release(tx: Any, kind: str, stages: Any, limit: int, now: int, floor: int) -> Sequence[Any]:
        return []

    with swapped(pauses, "release", release):
        yield


MUTANTS = (
    Mutant(paused_kind_is_claimed, ("S27",), 60),
    Mutant(paused_queue_is_looked_into, ("S27",), 60),
    Mutant(goes_on_past_a_pause, ("S27",), 100),
    Mutant(resumed_and_forgotten, ("L1",), 60),
)

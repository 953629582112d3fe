"""Planted bugs about floors: what lies below is passed over for longer than a look takes to come round. The last
three need a late commit after a look that stood still, or of a busy aggregate, which no seed of a reasonable hunt
brings about: `tests/horizon/test_below.py` and `tests/kernel/test_busy_aggregates.py` do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.core import floor
from holdfast.tables import jobs, lanes, outbox
from tests.proof.plant import respelled, swapped


@contextmanager
def floors_never_reset() -> Iterator[None]:
    """A scan begins for ever where an earlier one ended: neither time, nor an error, nor whoever puts a job below
    brings it down again."""

    def once(self: Any, now: int) -> bool:
        return self.looked_at is None

    with (
        swapped(floor.Rhythm, "is_due", once),
        swapped(floor.Lanes, "forget", lambda self: None),
        swapped(floor.Lanes, "lower", lambda self, entered: None),
        respelled(
            jobs.sql, "turn", ("MIN(ca) FILTER (WHERE act IN ('leave', 'admit'))", "CAST(CAST(NULL AS TEXT) AS BIGINT)")
        ),
    ):
        yield


@contextmanager
def floor_past_what_is_live() -> Iterator[None]:
    """A claim never looks at what is older than a moment, also when it is told to begin at the bottom."""
    with (
        respelled(jobs.sql, "turn", ("created_at >= lane.lo", "created_at >= GREATEST(lane.lo, :now - 1500)")),
        respelled(jobs.sql, "claim", ("created_at >= :floor", "created_at >= MAX(:floor, :now - 1500)")),
    ):
        yield


@contextmanager
def looks_lower_nothing() -> Iterator[None]:
    """What a look from the bottom finds, and does not take itself, brings no floor down: neither that of a claim nor
    that of a look beside the claims."""
    end = floor.Lanes.end

    def keep_floors(self: Any, claiming: Any, now: int) -> None:
        if claiming.looks_since is not None:
            claiming.reached = {lane: max(key, self.floors.get(lane, key)) for lane, key in claiming.reached.items()}
        end(self, claiming, now)

    with (
        swapped(floor.Lanes, "end", keep_floors),
        respelled(lanes.sql, "below", ("j.created_at < CAST(e.value->>2 AS BIGINT)", "FALSE")),
        respelled(lanes.sql, "below_later", ("j.run_at < CAST(e.value->>2 AS BIGINT)", "FALSE")),
        respelled(outbox.sql, "first_pending", ("available_at >= :floor", "available_at >= :floor AND :floor > 0")),
    ):
        yield


@contextmanager
def stalls_put_looks_off() -> Iterator[None]:
    """A process that stood still for minutes takes its look for a slow one, and the next one comes in hours."""
    with swapped(floor, "LOOK_WAIT_MS_MAX", 10**15):
        yield


@contextmanager
def writers_are_not_asked() -> Iterator[None]:
    """What a relay has seen published of an aggregate counts at once, whoever is still writing."""
    with respelled(outbox.sql, "writers", ("AND granted", "AND NOT granted")):
        yield


@contextmanager
def set_aside_for_good() -> Iterator[None]:
    """A message that was set aside counts as published."""
    with respelled(outbox.sql, "first_unpublished", ("f.status = 'failed'", "f.status = 'published' AND FALSE")):
        yield

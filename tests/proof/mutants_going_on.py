"""Planted bugs about going on with a job from one stage to the next. Production code holds none of this."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.kernel import effects as effects_kernel
from holdfast.kernel import go_on
from holdfast.tables import effects as ledger
from holdfast.tables import jobs
from tests.proof.plant import respelled, swapped


@contextmanager
def goes_on_unfenced() -> Iterator[None]:
    """Who goes on does not ask whether the job is still its own, however long ago that was."""
    with (
        swapped(go_on, "GOES_ON_MS", 10**9),
        respelled(
            jobs.sql,
            "end",
            (
                "AND holdfast_jobs.attempt = s.attempt AND holdfast_jobs.state = s.expected",
                "AND (s.goes OR (holdfast_jobs.attempt = s.attempt AND holdfast_jobs.state = s.expected))",
            ),
            ("THEN MAX(holdfast_jobs.lease_until, :lease_until)", "THEN :lease_until"),
        ),
        respelled(
            jobs.sql,
            "turn",
            (
                "AND j.attempt = s.attempt AND CASE j.state WHEN s.expected THEN TRUE ELSE FALSE END",
                "AND (s.goes OR (j.attempt = s.attempt AND j.state = s.expected))",
            ),
        ),
    ):
        yield


@contextmanager
def goes_on_under_the_old_number() -> Iterator[None]:
    """The next stage is entered as the same attempt."""
    with (
        respelled(jobs.sql, "end", ("attempt = holdfast_jobs.attempt + s.goes", "attempt = holdfast_jobs.attempt")),
        respelled(jobs.sql, "turn", ("attempt = j.attempt + CAST(s.goes AS INTEGER)", "attempt = j.attempt")),
    ):
        yield


@contextmanager
def goes_on_past_a_held_provider() -> Iterator[None]:
    """The next stage is entered whatever its provider's breaker says, however long ago the job was claimed."""
    held = "AND (r.provider IS NULL OR r.provider NOT IN ("
    open_to_all = "AND (TRUE OR r.provider NOT IN ("
    with (
        swapped(go_on, "GOES_ON_MS", 10**9),
        respelled(jobs.sql, "end", (held, open_to_all)),
        respelled(jobs.sql, "turn", (held, open_to_all)),
    ):
        yield


@contextmanager
def result_only_handed_on() -> Iterator[None]:
    """What a stage returned is given to the next one, and not stored."""
    with (
        respelled(
            jobs.sql, "keep_values", ("WHERE s.value IS NOT NULL", "WHERE s.value IS NOT NULL AND s.goes_on = 0")
        ),
        respelled(
            jobs.sql, "turn", ("FROM fin WHERE value IS NOT NULL", "FROM fin WHERE value IS NOT NULL AND NOT goes")
        ),
    ):
        yield


@contextmanager
def claim_untold() -> Iterator[None]:
    """The event that ends an attempt does not show when that was claimed."""
    nothing = "CAST(NULL AS BIGINT)"
    with (
        respelled(jobs.sql, "log_ends", ("s.data, s.claimed_at", f"s.data, {nothing}")),
        respelled(jobs.sql, "turn", ("data, claimed_at FROM fin", f"data, {nothing} FROM fin")),
    ):
        yield


@contextmanager
def new_effect_unfenced() -> Iterator[None]:
    """The first send of an effect begins whoever holds the job, and so does every later one."""
    lease = "j.attempt = CAST(e.value->>7 AS BIGINT) AND CASE j.state WHEN 'processing' THEN TRUE ELSE FALSE END"
    with respelled(ledger.sql, "begin_new", (lease, "TRUE")), swapped(effects_kernel, "STOOD_STILL_MS", 10**9):
        yield

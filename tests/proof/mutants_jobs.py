"""Planted bugs about jobs: fences, decisions, replays. Production code holds none of this."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from holdfast.core import budget
from holdfast.core.decide import Decision, decide
from holdfast.core.failure import Category, failure
from holdfast.core.outcome import Failed, Held, Lost
from holdfast.kernel import context, operate
from holdfast.tables import jobs, leases
from tests.proof.plant import decided, respelled, swapped

# Fences


@contextmanager
def unfenced_completion() -> Iterator[None]:
    """Whoever finishes last has the last word."""
    with (
        respelled(jobs.sql, "end", ("AND holdfast_jobs.attempt = s.attempt AND holdfast_jobs.state = s.expected", "")),
        respelled(
            jobs.sql,
            "turn",
            ("AND j.attempt = s.attempt AND CASE j.state WHEN s.expected THEN TRUE ELSE FALSE END", ""),
        ),
    ):
        yield


@contextmanager
def unfenced_attempt() -> Iterator[None]:
    """The state is checked, the attempt is not."""
    with (
        respelled(jobs.sql, "end", ("AND holdfast_jobs.attempt = s.attempt ", "")),
        respelled(jobs.sql, "turn", ("AND j.attempt = s.attempt ", "")),
    ):
        yield


@contextmanager
def unfenced_reaper() -> Iterator[None]:
    """The reaper takes leases that have not ended."""
    with respelled(leases.sql, "expired", ("lease_until < :now", "lease_until - 45000 < :now")):
        yield


@contextmanager
def progress_unfenced() -> Iterator[None]:
    """Progress is written without asking who holds the job."""

    async def progress(self: Any, **data: Any) -> None:
        async with self.kernel.store.transaction() as tx:
            await context.events.append(tx, [(self.job.id, self.job.attempt, "progress", None)], self.now())

    with swapped(context.Context, "progress", progress):
        yield


@contextmanager
def sweep_touches_the_ended() -> Iterator[None]:
    """The sweep does not care whether a job has ended."""
    with respelled(
        leases.sql, "overdue", ("state IN ('queued', 'processing', 'waiting')", "state NOT IN ('dead', 'cancelled')")
    ):
        yield


# Deciding


@contextmanager
def late_result_flips_state() -> Iterator[None]:
    """A result counts whenever it comes."""

    def forgive(job: Any, *rest: Any) -> Decision:
        return decide(job._replace(deadline_at=None), *rest)

    with decided(forgive):
        yield


@contextmanager
def attempt_spent_while_open() -> Iterator[None]:
    """Being held by an open breaker costs an attempt."""

    def costly(job: Any, outcome: Any, *rest: Any) -> Decision:
        if isinstance(outcome, Held):
            outcome = Failed(failure(Category.RATE_LIMIT, "PROVIDER_HELD", outcome.reason))
        return decide(job, outcome, *rest)

    with decided(costly):
        yield


@contextmanager
def trial_calls_spend_budgets() -> Iterator[None]:
    """A failure costs an attempt although its provider is known to be down."""

    def blind(job: Any, outcome: Any, plan: Any, following: Any, now: int, draw: float, gates: Any) -> Decision:
        return decide(job, outcome, plan, following, now, draw)

    with decided(blind):
        yield


@contextmanager
def failures_that_opened_it_stay_spent() -> Iterator[None]:
    """What was counted before the breaker opened is never given back."""

    def forget(job: Any, outcome: Any, *rest: Any) -> Decision:
        decision = decide(job, outcome, *rest)
        text = decision.tally
        if text is not None:
            decision.tally = budget.to_text(replace(budget.from_text(text), faults={}))
        return decision

    with decided(forget):
        yield


@contextmanager
def rate_limits_spend_budgets() -> Iterator[None]:
    """A provider's own 429 costs an attempt."""
    with swapped(budget, "asks_to_wait", lambda failure: False):
        yield


@contextmanager
def budget_shared_by_stages() -> Iterator[None]:
    """A stage inherits the failures of the one before."""

    def inherit(job: Any, *rest: Any) -> Decision:
        decision = decide(job, *rest)
        if decision.event == "advanced":
            decision.failures = job.failures
        return decision

    with decided(inherit):
        yield


@contextmanager
def crashes_not_counted() -> Iterator[None]:
    """A job may kill workers for ever."""

    def forget(job: Any, outcome: Any, *rest: Any) -> Decision:
        if isinstance(outcome, Lost):
            job = job._replace(crashes=0)
        return decide(job, outcome, *rest)

    with decided(forget):
        yield


@contextmanager
def retry_after_ignored() -> Iterator[None]:
    """The provider asks for a pause and nobody writes it down."""

    def deaf(job: Any, outcome: Any, *rest: Any) -> Decision:
        if isinstance(outcome, Failed):
            outcome = Failed(replace(outcome.failure, retry_after_ms=None))
        return decide(job, outcome, *rest)

    with decided(deaf):
        yield


# Replays


@contextmanager
def retry_after_lost_in_replay() -> Iterator[None]:
    """A replay runs at once, whatever the provider asked for."""
    kept = "CASE WHEN not_before IS NOT NULL AND not_before > :run_at THEN not_before ELSE :run_at END"
    with respelled(jobs.sql, "revive", (kept, ":run_at")):
        yield


@contextmanager
def replay_from_the_first_stage() -> Iterator[None]:
    """A replay does again what was done."""
    intact = operate._revive

    async def from_the_top(kernel: Any, tx: Any, case: Any, *rest: Any) -> Any:
        first = kernel.registry.kind(case.kind).stages[0].name
        return await intact(kernel, tx, case._replace(stage=first), *rest)

    with swapped(operate, "_revive", from_the_top):
        yield

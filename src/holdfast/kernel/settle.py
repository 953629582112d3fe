"""Ends attempts. The only module that moves a job out of `processing` or `waiting`.

    processing --done--> succeeded      processing --retried, lost, held, released, snoozed--> queued
        \\-----buried--> dead            processing --waits--> waiting --called--> queued

Worker, reaper, sweep, callback and cancellation all come here with an outcome. Each job keeps its own fence inside
the one statement: the attempt it was claimed under and the state it is left from. A job that does not come back was
ended or taken by somebody else: that is news, never an overwrite, and its result is kept as a late one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.core.decide import Decision, StagePlan, decide
from holdfast.core.failure import Category, classify
from holdfast.core.job import TERMINAL, Claimed, State
from holdfast.core.outcome import Called, Done, Failed, Next, Outcome
from holdfast.core.redact import redact_stack, redact_text
from holdfast.errors import StoreBusy, StoreFull, StoreUnavailable
from holdfast.kernel.bury import bury
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.trace import span
from holdfast.stores.seam import Tx
from holdfast.tables import batch, events, jobs, outbox, results
from holdfast.tables.events import NewEvent
from holdfast.tables.outbox import NewMessage

AWAY = (StoreUnavailable, StoreBusy, StoreFull)
"""The database is not there for anybody: no settlement is to blame."""


@dataclass(slots=True)
class Settlement:
    """One attempt's end, before it is decided. `value` is the stage's result as JSON."""

    job: Claimed
    outcome: Outcome
    value: str | None = None
    expected: State = State.PROCESSING
    provider: str | None = None
    messages: list[NewMessage] = field(default_factory=list)
    events: list[NewEvent] = field(default_factory=list)
    duration_ms: int = 0
    spoiled: bool = False
    """Could not be written as it was: it ends as a bug, and its hook is not asked again."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What a job's `settled` hook is told, inside the transaction that changes the job."""

    job: Claimed
    decision: Decision
    value: str | None
    now: int


async def settle(kernel: Kernel, tx: Tx, settlements: Sequence[Settlement]) -> set[str]:
    """Decide and write every settlement; return the ids that were accepted. The caller commits.

    A worker that lost a job and claimed it again may bring two ends of it: only the newer one can be accepted."""
    now = kernel.now()
    newest = {one.job.id: one for one in sorted(settlements, key=lambda one: one.job.attempt)}
    decided = [(one, _decision(kernel, one, now)) for one in settlements]
    lefts = [jobs.Left(s.job, s.expected, d, _error(d), _data(d)) for s, d in decided if newest[s.job.id] is s]
    accepted = await jobs.settle(tx, lefts, now)
    kept = [(one, d) for one, d in decided if one.job.id in accepted and newest[one.job.id] is one]
    in_time = [(one, d) for one, d in kept if d.event != "expired"]
    await _store_values(tx, in_time, now, late=False)
    await _store_values(tx, [(one, d) for one, d in kept if d.event == "expired"], now, late=True)
    await _store_messages(tx, [message for one, _ in in_time for message in one.messages], now)
    extra = [event for one, _ in kept for event in one.events]
    if extra:
        await events.append(tx, extra, now)
    for one, decision in kept:
        if decision.state is State.DEAD:
            await bury(kernel, tx, one.job, decision, now)
        if not one.spoiled:
            await _hook(kernel, tx, one, decision, now)
    if len(kept) < len(decided):
        ours = {id(one) for one, _ in kept}
        await _refused(kernel, tx, [(one, d) for one, d in decided if id(one) not in ours], now)
    await _wake(kernel, tx, kept, now)
    return accepted


async def settle_apart(kernel: Kernel, settlements: Sequence[Settlement], error: Exception) -> set[str]:
    """Settle each in a transaction of its own, because one of them spoiled the group. One bad hook, wait key or
    message must not hold up its neighbours: what cannot be written as it is becomes a dead letter that says why."""
    kernel.watch.log("settle.spoiled", jobs=len(settlements), error=f"{type(error).__name__}: {error}")
    accepted: set[str] = set()
    for one in settlements:
        try:
            async with kernel.store.transaction() as tx:
                accepted |= await settle(kernel, tx, [one])
        except AWAY:
            raise
        except Exception as problem:
            why = replace(classify(problem), category=Category.BUG, error_class="SETTLE_FAILED", retryable=False)
            stack = redact_stack(problem)
            bad = replace(one, outcome=Failed(replace(why, stack=stack)), messages=[], events=[], spoiled=True)
            async with kernel.store.transaction() as tx:
                accepted |= await settle(kernel, tx, [bad])
    return accepted


def report(kernel: Kernel, settlements: Sequence[Settlement], accepted: set[str]) -> None:
    """Log and count what was settled. Called after the commit: a rollback reports nothing."""
    for one in settlements:
        if one.job.id not in accepted:
            kernel.watch.count("settles_refused", kind=one.job.kind)
            kernel.watch.log("stale", job_id=one.job.id, kind=one.job.kind, attempt=one.job.attempt)


def _decision(kernel: Kernel, one: Settlement, now: int) -> Decision:
    kind = kernel.registry.kinds.get(one.job.kind)
    stage = kind.by_name.get(one.job.stage) if kind else None
    plan = stage.plan if stage else StagePlan(one.job.stage, one.provider)
    following = kind.following.get(one.job.stage) if kind else None
    decision = decide(one.job, one.outcome, plan, following, now, kernel.dice.draw())
    _tell(kernel, one, decision)
    return decision


def _tell(kernel: Kernel, one: Settlement, decision: Decision) -> None:
    failure = decision.failure
    kernel.watch.count("jobs_settled", kind=one.job.kind, event=decision.event)
    if decision.state is State.DEAD and failure:
        kernel.watch.count("jobs_failed", kind=one.job.kind, code=failure.error_class)
    kernel.watch.log(
        decision.event,
        job_id=one.job.id,
        kind=one.job.kind,
        status=decision.state,
        stage=one.job.stage,
        attempt=one.job.attempt,
        duration_ms=one.duration_ms,
        provider_status=failure.status if failure else None,
        error_code=failure.error_class if failure else None,
        trace=one.job.trace,
    )


def _error(decision: Decision) -> str | None:
    why = decision.failure
    if why is None:
        return None
    return batch.text({"error_class": why.error_class, "message": redact_text(why.message)[:500]})


def _data(decision: Decision) -> str | None:
    """The event's small JSON: enough to read a job's story without looking elsewhere."""
    data: dict[str, Any] = {}
    if decision.failure is not None:
        data["error_class"] = decision.failure.error_class
        data["message"] = redact_text(decision.failure.message)[:300]
    if decision.buried:
        data["reason"] = decision.buried
    if decision.note:
        data["note"] = redact_text(decision.note)[:300]
    if decision.event in ("retried", "snoozed", "held", "lost"):
        data["run_at"] = decision.run_at
    if decision.event == "advanced":
        data["stage"] = decision.stage
    return batch.text(data) if data else None


async def _store_values(tx: Tx, pairs: Sequence[tuple[Settlement, Decision]], now: int, *, late: bool) -> None:
    rows = [
        (one.job.id, one.job.stage, one.job.attempt, int(late), one.value)
        for one, _ in pairs
        if one.value is not None and isinstance(one.outcome, Done | Next | Called)
    ]
    if rows:
        await results.put(tx, rows, now)


async def _store_messages(tx: Tx, messages: Sequence[NewMessage], now: int) -> None:
    if messages:
        await outbox.put(tx, messages, now)
        await tx.hint("outbox")


async def _hook(kernel: Kernel, tx: Tx, one: Settlement, decision: Decision, now: int) -> None:
    """Let the job's own class write what belongs to the change, in the same transaction."""
    kind = kernel.registry.kinds.get(one.job.kind)
    if kind is not None and kind.settled is not None:
        with span(f"{one.job.kind} {decision.event}", one.job.trace, {"job.id": one.job.id}):
            await kind.settled(kind.instance, kernel, tx, Settled(one.job, decision, one.value, now))


async def _refused(kernel: Kernel, tx: Tx, refused: Sequence[tuple[Settlement, Decision]], now: int) -> None:
    """A fence said no. Either we wrote this before and lost the answer, or the job went on without us."""
    for one, decision in refused:
        told = {row["type"] for row in await events.of_job(tx, one.job.id) if row["attempt"] == one.job.attempt}
        if decision.event in told and decision.event != "expired":
            continue  # our own commit, whose answer was lost
        await _store_values(tx, [(one, decision)], now, late=True)
        if decision.event in told:
            continue  # a sweep was faster, or our own commit; the late value is kept once either way
        await events.append(tx, [(one.job.id, one.job.attempt, "stale", batch.text({"event": decision.event}))], now)


async def _wake(kernel: Kernel, tx: Tx, kept: Sequence[tuple[Settlement, Decision]], now: int) -> None:
    channels = set()
    for one, decision in kept:
        kind = kernel.registry.kinds.get(one.job.kind)
        if decision.event == "advanced" or (decision.state is State.QUEUED and decision.run_at <= now):
            channels.add(f"queue:{one.job.queue}")
        if kind is not None and kind.announce:
            channels.add("events")
        if decision.state in TERMINAL and decision.state is not State.SUCCEEDED:
            channels.add("events")
    for channel in sorted(channels):
        await tx.hint(channel)

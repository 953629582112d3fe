"""Answers the question of whoever is on call: why is this job not running? In words, and with the facts behind them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from holdfast.core.breaker import Gate
from holdfast.core.case import NEXT_STEP, CaseState
from holdfast.core.family import JOIN_KEY
from holdfast.core.job import State
from holdfast.errors import NotFound
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.kinds import declared_key
from holdfast.kernel.questions.horizon import read_held_back
from holdfast.stores.seam import Tx
from holdfast.tables import events, jobs, joins, ops, pauses, providers, workers
from holdfast.tables.events import JobStep
from holdfast.tables.job_rows import JobDetails
from holdfast.tables.joins import JoinLine
from holdfast.tables.ops import CaseSummary
from holdfast.tables.pauses import JobPause
from holdfast.tables.providers import ProviderRow
from holdfast.tables.workers import SeenWorker


@dataclass(frozen=True, slots=True)
class Explanation:
    """`sentence` is for people; `facts["code"]` and the rest are for programs."""

    sentence: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Story:
    """All that was read of one job, at one moment."""

    job: JobDetails
    last: JobStep | None
    provider: ProviderRow | None
    case: CaseSummary | None
    workers: Sequence[SeenWorker]
    now: int
    declaring: frozenset[str] = frozenset()
    """What the running workers of its queue may claim."""
    pauses: Sequence[JobPause] = ()
    """Those of its kind and its queue."""
    join: JoinLine | None = None
    """The children that it waits for."""
    home: str | None = None
    """The queue that its kind waits in by the loaded code."""


async def explain(kernel: Kernel, job_id: str) -> Explanation:
    """Why the job is where it is, and what happens next. Raises NotFound."""
    async with kernel.store.reading() as tx:
        story = await _read(kernel, tx, job_id)
    explanation = _explained(story)
    long = await read_held_back(kernel) if explanation.facts["code"] in ("DUE", "NO_WORKER") else None
    return (
        explanation
        if long is None
        else Explanation(f"{explanation.sentence} {long}", {**explanation.facts, "held_back": long})
    )


def _explained(story: Story) -> Explanation:
    match State(story.job.state):
        case State.QUEUED:
            return _queued(story)
        case State.PROCESSING:
            return _processing(story)
        case State.WAITING:
            return _waiting(story)
        case State.DEAD:
            return _dead(story)
        case State.SUCCEEDED:
            return _finished(story, "FINISHED", "It succeeded")
        case State.CANCELLED:
            return _finished(story, "CANCELLED", f"It was cancelled {_note(story.last)}".rstrip())


async def _read(kernel: Kernel, tx: Tx, job_id: str) -> Story:
    job = await jobs.show(tx, job_id)
    if job is None:
        raise NotFound(f"There is no job {job_id}.")
    history = await events.of_job(tx, job_id)
    provider = await providers.read(tx, job.provider) if job.provider else None
    case = await ops.case_of_job(tx, job_id) if job.state == State.DEAD else None
    now = kernel.now()
    sets = await workers.declaring(tx, job.queue, now - workers.FRESH_MS) if job.state == State.QUEUED else []
    declaring = frozenset(key for keys in sets for key in keys)
    paused = await pauses.of_job(tx, job.kind, job.queue) if job.state == State.QUEUED else []
    last = history[-1] if history else None
    join = await _join_of(tx, job)
    kind = kernel.registry.kinds.get(job.kind)
    home = None if kind is None else kind.queue
    return Story(job, last, provider, case, await workers.read_every(tx), now, declaring, paused, join, home)


async def _join_of(tx: Tx, job: JobDetails) -> JoinLine | None:
    if job.state != State.WAITING or not (job.wait_key or "").startswith(JOIN_KEY):
        return None
    lines = await joins.of_parent(tx, job.id)
    return next((line for line in lines if JOIN_KEY + line.id == job.wait_key), None)


def _queued(story: Story) -> Explanation:
    job, now = story.job, story.now
    if story.pauses:
        return _paused(story)
    if job.hold == "pause":
        sentence = f"The kind '{job.kind}' goes on again; what waited is let go in batches, this one soon."
        return Explanation(sentence, {"code": "RELEASED", "kind": job.kind})
    if job.parked and job.hold != "turn":
        return _parked(story)
    if job.run_at > now:
        return _later(story)
    if story.provider is not None and story.provider.state.gate is not Gate.CLOSED and job.hold != "trial":
        return _parked(story)
    fresh = [
        worker
        for worker in story.workers
        if _serves(worker, job.queue) and worker.seen_at >= now - workers.FRESH_MS and worker.drain_at is None
    ]
    facts = {"queue": job.queue, "run_at": job.run_at, "workers": len(fresh)}
    waited = _span(now - job.run_at)
    if not fresh and story.home not in (None, job.queue):
        sentence = (
            f"It has been due for {waited} in the queue '{job.queue}', which no running worker serves; jobs of its "
            f"kind wait in '{story.home}' now, where workers of this code bring it within about a minute."
        )
        return Explanation(sentence, {"code": "LEFT", "home": story.home, **facts})
    if not fresh:
        sentence = (
            f"It has been due for {waited} and no worker of the queue '{job.queue}' has reported lately: "
            "start one with `holdfast worker`."
        )
        return Explanation(sentence, {"code": "NO_WORKER", **facts})
    if story.declaring and declared_key(job.kind, job.stage, job.version) not in story.declaring:
        return _undeclared(job, {**facts, "version": job.version})
    busy = sum(worker.in_flight for worker in fresh)
    sentence = (
        f"It has been due for {waited} and waits its turn: {_count(len(fresh), 'worker')} of the queue "
        f"'{job.queue}' had {_count(busy, 'job')} in flight."
    )
    return Explanation(sentence, {"code": "DUE", "in_flight": busy, **facts})


def _undeclared(job: JobDetails, facts: dict[str, Any]) -> Explanation:
    sentence = (
        f"It waits: no running worker declares the stage '{job.stage}' of the kind '{job.kind}' with input of "
        f"version {job.version}. It spends no attempt meanwhile, and only its deadline or a person ends it: start a "
        "worker whose code has that stage, or say with `formerly=` which stage takes its place."
    )
    return Explanation(sentence, {"code": "UNDECLARED", **facts})


def _paused(story: Story) -> Explanation:
    job, now = story.job, story.now
    whats = [f"the {row.sort} '{row.name}'" for row in story.pauses]
    row = story.pauses[0]
    sentence = (
        f"It waits: {row.actor} has paused {' and '.join(whats)} at {iso(row.since)}, "
        f"{_span(now - row.since)} ago ({row.reason}). It spends no attempt meanwhile, and runs when that is "
        "resumed"
    )
    late = f"; its deadline is {_when(job.deadline_at, now)}" if job.deadline_at is not None else ""
    paused = [{"sort": each.sort, "name": each.name} for each in story.pauses]
    return Explanation(f"{sentence}{late}.", {"code": "PAUSED", "paused": paused, "since": row.since})


def _parked(story: Story) -> Explanation:
    name = story.job.provider
    state = story.provider.state if story.provider is not None else None
    facts = {"provider": name, "gate": state.gate if state else None, "open_until": state.open_until if state else None}
    if story.job.hold == "limit" and (state is None or state.gate is Gate.CLOSED):
        sentence = f"It is held: {_note(story.last)}; it goes on as soon as '{name}' has room."
        return Explanation(f"{sentence} It spends no attempt meanwhile.", {"code": "LIMITED", **facts})
    if state is None or state.gate is Gate.CLOSED:
        sentence = (
            f"The breaker of '{name}' has closed again; held jobs are let through a few at a time, this one soon."
        )
        return Explanation(sentence, {"code": "DRAINING", **facts})
    why = f" ({state.reason})" if state.reason else ""
    if state.gate is Gate.HALF_OPEN:
        sentence = f"It is held: the breaker of '{name}' is half open{why} and lets only a few trial calls through."
    elif state.forced:
        sentence = f"It is held: a person has opened the breaker of '{name}'{why}; it stays open until one closes it."
    elif state.open_until is None:
        sentence = f"It is held: the breaker of '{name}' is open{why} until a health probe finds it well."
    else:
        sentence = f"It is held: the breaker of '{name}' is open{why} until {_when(state.open_until, story.now)}."
    return Explanation(f"{sentence} It spends no attempt meanwhile.", {"code": "HELD", **facts})


def _later(story: Story) -> Explanation:
    """Queued for a later time: the last event says who asked for that."""
    job, now = story.job, story.now
    when = _when(job.run_at, now)
    facts: dict[str, Any] = {"run_at": job.run_at, "failures": job.failures, "not_before": job.not_before}
    kind, data = _last(story)
    error_class = data.get("error_class")
    if kind == "retried":
        facts["error_class"] = error_class
        if job.not_before is not None and job.run_at >= job.not_before > now - 1:
            sentence = f"The provider asked to wait ({error_class}): it runs again {when}, at no cost to its budget."
            return Explanation(sentence, {"code": "RETRY_AFTER", **facts})
        if data.get("note"):
            sentence = f"It runs again {when}, after {error_class}; {data['note']}."
            return Explanation(sentence, {"code": "RETRY", **facts})
        sentence = f"It runs again {when}: retry {job.failures} of the stage '{job.stage}', because of {error_class}."
        return Explanation(sentence, {"code": "RETRY", **facts})
    if kind == "lost":
        sentence = f"Its worker was lost ({_count(job.crashes, 'time')} in this stage); it runs again {when}."
        return Explanation(sentence, {"code": "WORKER_LOST", **facts, "crashes": job.crashes})
    if kind in ("held", "snoozed"):
        reason = data.get("note") or "it asked for it"
        sentence = f"It was put back at no cost ({reason}); it runs again {when}."
        return Explanation(sentence, {"code": kind.upper(), **facts, "reason": reason})
    verb = "It was replayed and" if kind == "replayed" else "It"
    return Explanation(f"{verb} is not due yet: it runs {when}.", {"code": "SCHEDULED", **facts})


def _processing(story: Story) -> Explanation:
    job, now, lease_until = story.job, story.now, story.job.lease_until or 0
    facts = {"worker": job.lease_owner, "lease_until": lease_until, "attempt": job.attempt}
    if lease_until < now:
        sentence = (
            f"Its worker '{job.lease_owner}' has let the lease run out {_span(now - lease_until)} ago; "
            "it is taken back at the next look for lost leases."
        )
        return Explanation(sentence, {"code": "LEASE_EXPIRED", **facts})
    sentence = (
        f"It is running: worker '{job.lease_owner}' works on the stage '{job.stage}' (attempt {job.attempt}) "
        f"and holds it until {_when(lease_until, now)} unless it renews."
    )
    return Explanation(sentence, {"code": "RUNNING", **facts})


def _waiting(story: Story) -> Explanation:
    job, join = story.job, story.join
    if join is not None:
        sentence = f"It waits for its children: {join.unended} of {join.size} jobs of '{join.kind}' have not ended."
        return Explanation(sentence, {"code": "CHILDREN", "children": join.size, "unended": join.unended})
    sentence = f"It waits for a callback with the key '{job.wait_key}', until {_when(job.run_at, story.now)}."
    return Explanation(sentence, {"code": "WAITING", "wait_key": job.wait_key, "until": job.run_at})


def _dead(story: Story) -> Explanation:
    case = story.case
    if case is None:
        return _finished(story, "DEAD", "It died, and its dead letter is gone")
    state = CaseState(case.state)
    sentence = (
        f"It died in the stage '{case.stage}' of {case.error_class} ({case.failure_reason}) after "
        f"{_count(case.attempts_made, 'attempt')}. "
        f"Dead letter {case.id} is {state}; next: {NEXT_STEP[state]}."
    )
    facts = {"case_id": case.id, "case_state": state, "error_class": case.error_class, "stage": case.stage}
    return Explanation(sentence, {"code": "DEAD", **facts})


def _finished(story: Story, code: str, verb: str) -> Explanation:
    at = story.job.finished_at or story.job.updated_at
    return Explanation(f"{verb} at {iso(at)}; there is nothing left to run.", {"code": code, "finished_at": at})


def _last(story: Story) -> tuple[str, dict[str, Any]]:
    if story.last is None:
        return "", {}
    return story.last.type, json.loads(story.last.data or "{}")


def _note(event: JobStep | None) -> str:
    note = json.loads(event.data or "{}").get("note") if event is not None else None
    return str(note) if note else ""


def _serves(worker: SeenWorker, queue: str) -> bool:
    return queue in worker.queues.split(",")


def iso(at_ms: int) -> str:
    """A time as people and clients read it: ISO 8601, UTC, milliseconds."""
    return f"{_second(at_ms // 1_000)}.{at_ms % 1_000:03d}Z"


@lru_cache(maxsize=256)
def _second(at_s: int) -> str:
    """The second that a time is in. Those of an answer, and of the answers beside it, are few."""
    return datetime.fromtimestamp(at_s, UTC).replace(tzinfo=None).isoformat()


def _when(at_ms: int, now: int) -> str:
    return f"{iso(at_ms)} (in {_span(at_ms - now)})" if at_ms > now else f"{iso(at_ms)} (now)"


def _span(ms: int) -> str:
    seconds = max(0, ms) // 1_000
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7_200 else f"{seconds // 3_600} h"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

"""How attempts end: what becomes of each, the rows that say so, and what is written beside them.

    processing --done--> succeeded      processing --retried, lost, held, released, snoozed--> queued
        \\-----buried--> dead            processing --waits--> waiting --called--> queued

Worker, reaper, sweep, callback and cancellation all come to `kernel.turn` with an outcome, and it comes here. Each job
keeps its own fence inside the statement: the attempt it was claimed under and the state it is left from. A job that
does not come back was ended or taken by somebody else: that is news, never an overwrite, and its result is kept as a
late one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.core import budget
from holdfast.core.budget import Gates
from holdfast.core.decide import Decision, StagePlan, decide
from holdfast.core.job import EDGES, TERMINAL, Claimed, State
from holdfast.core.outcome import Called, Done, Failed, Next, Outcome, Parked
from holdfast.core.redact import redact_message
from holdfast.kernel.bury import bury
from holdfast.kernel.compose.awaited import ended_channel
from holdfast.kernel.compose.job_tx import JobTx, Settled
from holdfast.kernel.declare.path import done_after, former_names_done, stage_after
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.observe.trace import span
from holdfast.stores.seam import Tx
from holdfast.tables import answers, batch, breakers, events, jobs, joins, logs, outbox, results, secrets
from holdfast.tables.events import NewEvent
from holdfast.tables.outbox import NewMessage
from holdfast.tables.results import NewResult

VALUED = (Done, Next, Called)
"""Outcomes whose value is the stage's result."""
ERASED = (State.SUCCEEDED, State.CANCELLED)
"""Where nothing needs a job's credentials any more. The dead keep them for a replay, until their case is resolved."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A leased job and the results of its earlier stages."""

    job: Claimed
    results: Mapping[str, str] = field(default_factory=dict)
    since: int = 0
    """When it was claimed; it may have gone on since, from stage to stage."""
    went_on: bool = False
    """Whether its holder kept it, from the stage before."""
    sealed: Mapping[int, str] = field(default_factory=dict)
    """The credentials of its addresses, for the handler alone."""


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
    provider_status: int | None = None
    """What the provider answered last, where it was called by a client that notes it."""
    has_answers: bool = False
    """Whether answers are kept for this stage: they go when the job leaves it."""
    spoiled: bool = False
    """Could not be written as it was: it ends as a bug, and its hook is not asked again."""
    taken: Taken | None = None
    """What the attempt was given, if its worker may go on with the job's next stage."""
    log: str | None = None
    """What it logged, as JSON."""


Ends = Sequence[tuple[Settlement, Decision]]


async def write_beside(kernel: Kernel, tx: Tx, kept: Ends, now: int) -> None:
    """Write what belongs to the accepted ends beside the jobs' own rows: messages, cases, hooks, answers, logs."""
    in_time = [message for settlement, d in kept if d.event != "expired" for message in settlement.messages]
    if in_time:
        await outbox.put(tx, in_time, now)
        await tx.hint("outbox")
    former = _former_results(kernel, kept)
    if former:
        await results.put(tx, former, now)
    logged = [(each.job.id, each.job.attempt, each.log) for each, _ in kept if each.log is not None]
    if logged:
        await logs.put(tx, logged)
    extra = [event for settlement, _ in kept for event in settlement.events]
    if extra:
        await events.append(tx, extra, now)
    left = [
        settlement.job.id
        for settlement, d in kept
        if settlement.has_answers and (d.state in ERASED or d.event == "advanced")
    ]
    if left:
        await answers.forget(tx, left)
    for settlement, decision in kept:
        if decision.state is State.DEAD:
            await bury(kernel, tx, settlement.job, decision, now)
        if not settlement.spoiled:
            await _hook(kernel, tx, settlement, decision, now)
    over = [settlement.job.id for settlement, d in kept if d.state in ERASED and _seals(kernel, settlement.job.kind)]
    if over:
        await secrets.forget(tx, over)
    await _tell_family(tx, kept, now)


async def _tell_family(tx: Tx, kept: Ends, now: int) -> None:
    """Count down for parents whose children end here, and leave the children of parents that end otherwise than well. A
    replayed child was counted when it ended first. Last in the transaction: a join's row is held for a moment only."""
    parents = [settlement.job.id for settlement, decision in kept if decision.state in (State.DEAD, State.CANCELLED)]
    wakes = await joins.leave(tx, parents, now) if parents else False
    ended = Counter(
        settlement.job.join_id
        for settlement, d in kept
        if _counts(settlement.job, d) and settlement.job.join_id is not None
    )
    if ended:
        wakes = await joins.count_down(tx, ended, now) or wakes
    if wakes:
        await tx.hint("wakes")


def _counts(job: Claimed, decision: Decision) -> bool:
    return job.join_id is not None and job.epoch == 0 and decision.state in TERMINAL


async def gates_of(kernel: Kernel, settlements: Sequence[Settlement]) -> Gates:
    """The breakers that deciding these needs to see. Most groups need none, and read nothing."""
    if not _providers_concerned(settlements):
        return {}
    async with kernel.store.reading() as tx:
        return await gates_in(tx, settlements)


async def gates_in(tx: Tx, settlements: Sequence[Settlement]) -> Gates:
    names = _providers_concerned(settlements)
    return {name: row.state for name, row in (await breakers.read_all(tx, names)).items()} if names else {}


def _providers_concerned(settlements: Sequence[Settlement]) -> set[str]:
    """Whose calls failed here, and whose faults were counted before."""
    names: set[str] = set()
    for settlement in settlements:
        if isinstance(settlement.outcome, Failed):
            names.update(standing.provider for standing in settlement.outcome.standings)
        if settlement.job.tally is not None and isinstance(settlement.outcome, (Failed, Next, Called)):
            names.update(budget.from_text(settlement.job.tally).faults)
    return names


def decide_all(kernel: Kernel, settlements: Sequence[Settlement], now: int, gates: Gates) -> Ends:
    """What becomes of each. A worker that lost a job and claimed it again may bring two ends of it: the newer is
    the last, and only that can be accepted."""
    ends = [(settlement, _decision(kernel, settlement, now, gates)) for settlement in settlements]
    if len({settlement.job.id for settlement in settlements}) < len(ends):
        ends.sort(key=lambda end: end[0].job.attempt)
    return ends


def lefts(kernel: Kernel, ends: Ends, going: Collection[str] = ()) -> list[jobs.Left]:
    """The rows to write: for each job its newest end. `going`: the jobs whose holder would go on with them."""
    newest = {settlement.job.id: (settlement, decision) for settlement, decision in ends}
    for settlement, decision in newest.values():
        edge = (settlement.expected, decision.state)
        assert edge in EDGES, f"A job never goes from {edge[0]} to {edge[1]}."
    return [
        jobs.Left(
            settlement.job,
            settlement.expected,
            d,
            _error(d),
            _data(d),
            _value(settlement),
            _done(kernel, settlement, d),
            job_id in going,
        )
        for job_id, (settlement, d) in newest.items()
    ]


def split_accepted(ends: Ends, accepted: set[str]) -> tuple[Ends, Ends]:
    """The ends that were accepted, and those that were refused."""
    if len(accepted) == len(ends):
        return ends, ()
    newest = {settlement.job.id: settlement for settlement, _ in ends}
    kept = [
        (settlement, d)
        for settlement, d in ends
        if settlement.job.id in accepted and newest[settlement.job.id] is settlement
    ]
    ours = {id(settlement) for settlement, _ in kept}
    return kept, [(settlement, d) for settlement, d in ends if id(settlement) not in ours]


def is_plain(kernel: Kernel, ends: Ends) -> bool:
    """Whether nothing but the jobs' own rows, events, results and rings is to be written: a single statement."""
    for settlement, decision in ends:
        if (
            settlement.messages
            or settlement.events
            or settlement.log
            or settlement.has_answers
            or decision.state in (State.DEAD, State.CANCELLED)
        ):
            return False
        if settlement.job.join_id is not None and _counts(settlement.job, decision):
            return False
    if any(d.state is State.SUCCEEDED and _seals(kernel, settlement.job.kind) for settlement, d in ends):
        return False
    return not any(_writes_beside(kernel, kind) for kind in {settlement.job.kind for settlement, _ in ends})


def _seals(kernel: Kernel, name: str) -> bool:
    kind = kernel.registry.kinds.get(name)
    return kind is not None and bool(kind.seals)


def _writes_beside(kernel: Kernel, name: str) -> bool:
    kind = kernel.registry.kinds.get(name)
    return kind is not None and (kind.on_settled is not None or any(stage.formerly for stage in kind.stages))


def _decision(kernel: Kernel, settlement: Settlement, now: int, gates: Gates) -> Decision:
    kind = kernel.registry.kinds.get(settlement.job.kind)
    stage = kind.by_name.get(settlement.job.stage) if kind else None
    plan = stage.plan if stage else StagePlan(settlement.job.stage, settlement.provider)
    after = stage_after(kind, settlement.job) if kind and stage and isinstance(settlement.outcome, VALUED) else None
    following = after.plan if after else None
    draw = kernel.dice.draw() if isinstance(settlement.outcome, Failed) else 0.0
    return decide(settlement.job, settlement.outcome, plan, following, now, draw, gates)


def _error(decision: Decision) -> str | None:
    why = decision.failure
    if why is None:
        return None
    return batch.text({"error_class": why.error_class, "message": redact_message(why.message)[:500]})


def _data(decision: Decision) -> str | None:
    """The event's small JSON: enough to read a job's story without looking elsewhere."""
    if decision.event == "succeeded":
        return None
    data: dict[str, Any] = {}
    if decision.failure is not None:
        data["error_class"] = decision.failure.error_class
        data["message"] = redact_message(decision.failure.message)[:300]
    if decision.buried:
        data["reason"] = decision.buried
    if decision.note:
        data["note"] = redact_message(decision.note)[:300]
    if decision.event in ("retried", "snoozed", "held", "lost"):
        data["run_at"] = decision.run_at
    if decision.event in ("advanced", "rewound"):
        data["stage"] = decision.stage
    return batch.text(data) if data else None


def _done(kernel: Kernel, settlement: Settlement, decision: Decision) -> str | None:
    kind = kernel.registry.kinds.get(settlement.job.kind)
    return done_after(kind, settlement.job) if kind is not None and decision.event == "advanced" else None


def _former_results(kernel: Kernel, kept: Ends) -> list[NewResult]:
    """The results once more, under the names their stages had, for workers that know only those."""
    former = []
    for settlement, decision in kept:
        kind, value = kernel.registry.kinds.get(settlement.job.kind), _value(settlement)
        if kind is not None and value is not None and decision.event == "advanced":
            names = former_names_done(kind, settlement.job)
            former += [(settlement.job.id, name, settlement.job.attempt, 0, value) for name in names]
    return former


def _value(settlement: Settlement) -> str | None:
    return settlement.value if isinstance(settlement.outcome, VALUED) else None


async def _hook(kernel: Kernel, tx: Tx, settlement: Settlement, decision: Decision, now: int) -> None:
    """Let the job's own class write what belongs to the change, in the same transaction."""
    kind = kernel.registry.kinds.get(settlement.job.kind)
    if kind is not None and kind.on_settled is not None:
        with span(f"{settlement.job.kind} {decision.event}", settlement.job.trace, {"job.id": settlement.job.id}):
            change = Settled(settlement.job, decision, settlement.value, now)
            await kind.on_settled(kind.instance, JobTx(kernel, tx), change)


async def note_refused(tx: Tx, refused: Ends, now: int) -> None:
    """A fence refused them. Either we wrote this before and lost the answer, or the job went on without us: then its
    result is kept as a late one."""
    for settlement, decision in refused:
        known = {
            row["type"]
            for row in await events.of_job(tx, settlement.job.id)
            if row["attempt"] == settlement.job.attempt
        }
        if decision.event in known and decision.event != "expired":
            continue  # our own commit, whose answer was lost
        value = _value(settlement)
        if value is not None:
            await results.put(tx, [(settlement.job.id, settlement.job.stage, settlement.job.attempt, 1, value)], now)
        if decision.event in known:
            continue  # a sweep was faster, or our own commit; the late value is kept once either way
        await events.append(
            tx, [(settlement.job.id, settlement.job.attempt, "stale", batch.text({"event": decision.event}))], now
        )


def hints(kernel: Kernel, ends: Ends, now: int, going: Collection[str] = ()) -> list[str]:
    """Which channels to ring for these ends. Nobody needs to come for a job that its holder goes on with."""
    channels = set()
    kinds, awaited = kernel.registry.kinds, kernel.awaited
    for settlement, decision in ends:
        kind = kinds.get(settlement.job.kind)
        is_due = decision.event == "advanced" or (decision.state is State.QUEUED and decision.run_at <= now)
        if is_due and settlement.job.id not in going:
            channels.add(f"queue:{settlement.job.queue}")
        if isinstance(settlement.outcome, Parked):  # what it waits for may be there already
            channels.add("wakes")
        if kind is not None and kind.announce:
            channels.add("events")
        if decision.state in TERMINAL and decision.state is not State.SUCCEEDED:
            channels.add("events")
        if awaited and decision.state in TERMINAL and settlement.job.id in awaited:
            channels.add(ended_channel(settlement.job.id))
    return sorted(channels)

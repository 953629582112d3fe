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
from types import MappingProxyType
from typing import Any, NamedTuple

from holdfast.core import budget
from holdfast.core.budget import Gates
from holdfast.core.decide import Decision, StagePlan, decide
from holdfast.core.failure import Failure
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
from holdfast.tables import answers, batch, events, joins, logs, outbox, providers, results, secrets
from holdfast.tables.endings import EndingRow
from holdfast.tables.events import NewEvent
from holdfast.tables.outbox import NewMessage
from holdfast.tables.results import NewResult

VALUED = (Done, Next, Called)
"""Outcomes whose value is the stage's result."""
LEAVES_MORE = (State.DEAD, State.CANCELLED)
"""Ends that write more than the job's own row: a case, and what becomes of its children."""
ERASED = (State.SUCCEEDED, State.CANCELLED)
"""Where nothing needs a job's credentials any more. The dead keep them for a replay, until their case is resolved."""


NOTHING: Mapping[Any, str] = MappingProxyType({})


class LeasedJob(NamedTuple):
    """A leased job and the results of its earlier stages."""

    job: Claimed
    results: Mapping[str, str] = NOTHING
    since: int = 0
    """When it was claimed; it may have gone on since, from stage to stage."""
    went_on: bool = False
    """Whether its holder kept it, from the stage before."""
    sealed: Mapping[int, str] = NOTHING
    """The credentials of its addresses, for the handler alone."""


@dataclass(slots=True)
class Ending:
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
    is_unwritable: bool = False
    """Could not be written as it was: it ends as a bug, and its hook is not asked again."""
    is_written: bool = False
    """Ended in a commit of the handler's own: there is nothing left to write."""
    taken: LeasedJob | None = None
    """What the attempt was given, if the job has a next stage and its worker may go on with it."""
    log: str | None = None
    """What it logged, as JSON."""


DecidedEndings = Sequence[tuple[Ending, Decision]]


async def write_beside(kernel: Kernel, tx: Tx, kept: DecidedEndings, now: int) -> None:
    """Write what belongs to the accepted endings beside the jobs' own rows: messages, cases, hooks, answers, logs."""
    in_time = [message for ending, d in kept if d.event != "expired" for message in ending.messages]
    if in_time:
        await outbox.put(tx, in_time, now)
        await tx.notify("outbox")
    former = _former_results(kernel, kept)
    if former:
        await results.put(tx, former, now)
    logged = [(each.job.id, each.job.attempt, each.log) for each, _ in kept if each.log is not None]
    if logged:
        await logs.put(tx, logged)
    extra = [event for ending, _ in kept for event in ending.events]
    if extra:
        await events.append(tx, extra, now)
    left = [ending.job.id for ending, d in kept if ending.has_answers and (d.state in ERASED or d.event == "advanced")]
    if left:
        await answers.forget(tx, left)
    for ending, decision in kept:
        if decision.state is State.DEAD:
            await bury(kernel, tx, ending.job, decision, now)
        if not ending.is_unwritable:
            await _hook(kernel, tx, ending, decision, now)
    over = [ending.job.id for ending, d in kept if d.state in ERASED and _seals(kernel, ending.job.kind)]
    if over:
        await secrets.forget(tx, over)
    await _tell_family(tx, kept, now)


async def _tell_family(tx: Tx, kept: DecidedEndings, now: int) -> None:
    """Count down for parents whose children end here, and leave the children of parents that end otherwise than well. A
    replayed child was counted when it ended first. Last in the transaction: a join's row is held for a moment only."""
    parents = [ending.job.id for ending, decision in kept if decision.state in (State.DEAD, State.CANCELLED)]
    wakes = await joins.leave(tx, parents, now) if parents else False
    ended = Counter(
        ending.job.join_id for ending, d in kept if _counts(ending.job, d) and ending.job.join_id is not None
    )
    if ended:
        wakes = await joins.count_down(tx, ended, now) or wakes
    if wakes:
        await tx.notify("wakes")


def _counts(job: Claimed, decision: Decision) -> bool:
    return job.join_id is not None and job.epoch == 0 and decision.state in TERMINAL


async def gates_of(kernel: Kernel, endings: Sequence[Ending]) -> Gates:
    """The breakers that deciding these needs to see. Most groups need none, and read nothing."""
    if not _providers_concerned(endings):
        return {}
    async with kernel.store.reading() as tx:
        return await gates_in(tx, endings)


async def gates_in(tx: Tx, endings: Sequence[Ending]) -> Gates:
    names = _providers_concerned(endings)
    return {name: row.state for name, row in (await providers.read_all(tx, names)).items()} if names else {}


async def gates_kept(tx: Tx, endings: Sequence[Ending]) -> Gates:
    """The same, and none of them moves until this transaction ends."""
    await providers.keep(tx, _providers_concerned(endings))
    return await gates_in(tx, endings)


async def have_moved(tx: Tx, decided: DecidedEndings, gates: Gates) -> bool:
    """Whether a breaker has left its generation since an end was decided by it for good: what opened it is free. A
    failure that is tried again is given back later."""
    present = await gates_kept(tx, [ending for ending, d in decided if _is_final(ending, d)])
    return any(
        name not in gates or (state.gate, state.generation) != (gates[name].gate, gates[name].generation)
        for name, state in present.items()
    )


def _is_final(ending: Ending, decision: Decision) -> bool:
    return decision.state is State.DEAD or not isinstance(ending.outcome, Failed)


def _providers_concerned(endings: Sequence[Ending]) -> set[str]:
    """Whose calls failed here, and whose faults were counted before."""
    names: set[str] = set()
    for ending in endings:
        if isinstance(ending.outcome, Failed):
            names.update(standing.provider for standing in ending.outcome.standings)
        if ending.job.tally is not None and isinstance(ending.outcome, (Failed, Next, Called)):
            names.update(budget.from_text(ending.job.tally).faults)
    return names


def decide_all(kernel: Kernel, endings: Sequence[Ending], now: int, gates: Gates) -> DecidedEndings:
    """What becomes of each. A worker that lost a job and claimed it again may bring two endings of it: the newer is
    the last, and only that can be accepted."""
    decided = [(ending, _decision(kernel, ending, now, gates)) for ending in endings]
    if len({ending.job.id for ending in endings}) < len(decided):
        decided.sort(key=lambda end: end[0].job.attempt)
    return decided


def ending_rows(kernel: Kernel, decided: DecidedEndings, going: Collection[str] = ()) -> list[EndingRow]:
    """The rows to write: for each job its newest end. `going`: the jobs whose holder would go on with them."""
    newest = {ending.job.id: (ending, decision) for ending, decision in decided}
    for ending, decision in newest.values():
        edge = (ending.expected, decision.state)
        assert edge in EDGES, f"A job never goes from {edge[0]} to {edge[1]}."
    return [
        EndingRow(
            ending.job,
            ending.expected,
            d,
            None if d.failure is None else _error(d.failure),
            None if d.event == "succeeded" else _data(d),
            _value(ending),
            _done(kernel, ending.job) if d.event == "advanced" else None,
            job_id in going,
        )
        for job_id, (ending, d) in newest.items()
    ]


def split_accepted(decided: DecidedEndings, accepted: set[str]) -> tuple[DecidedEndings, DecidedEndings]:
    """The endings that were accepted, and those that were refused."""
    if len(accepted) == len(decided):
        return decided, ()
    newest = {ending.job.id: ending for ending, _ in decided}
    kept = [(ending, d) for ending, d in decided if ending.job.id in accepted and newest[ending.job.id] is ending]
    ours = {id(ending) for ending, _ in kept}
    return kept, [(ending, d) for ending, d in decided if id(ending) not in ours]


def is_plain(kernel: Kernel, decided: DecidedEndings) -> bool:
    """Whether nothing but the jobs' own rows, events, results and rings is to be written: a single statement."""
    if any(_writes_beside(kernel, kind) for kind in {ending.job.kind for ending, _ in decided}):
        return False
    for ending, decision in decided:
        if (
            ending.messages
            or ending.events
            or ending.log
            or ending.has_answers
            or decision.state in LEAVES_MORE
            or (ending.job.join_id is not None and _counts(ending.job, decision))
        ):
            return False
    counted = [ending for ending, d in decided if ending.job.tally is not None and _is_final(ending, d)]
    return not (counted and _providers_concerned(counted))


def _seals(kernel: Kernel, name: str) -> bool:
    """Whether a job of this kind may have credentials. One whose code is not here may: anybody cancels it."""
    kind = kernel.registry.kinds.get(name)
    return kind is None or bool(kind.seals)


def _writes_beside(kernel: Kernel, name: str) -> bool:
    kind = kernel.registry.kinds.get(name)
    if kind is None:
        return False
    return kind.on_settled is not None or bool(kind.seals) or any(stage.formerly for stage in kind.stages)


def _decision(kernel: Kernel, ending: Ending, now: int, gates: Gates) -> Decision:
    kind = kernel.registry.kinds.get(ending.job.kind)
    stage = kind.by_name.get(ending.job.stage) if kind else None
    plan = stage.plan if stage else StagePlan(ending.job.stage, ending.provider)
    after = stage_after(kind, ending.job) if kind and stage and isinstance(ending.outcome, VALUED) else None
    following = after.plan if after else None
    draw = kernel.dice.draw() if isinstance(ending.outcome, Failed) else 0.0
    return decide(ending.job, ending.outcome, plan, following, now, draw, gates)


def _error(why: Failure) -> str:
    return batch.text({"error_class": why.error_class, "message": redact_message(why.message)[:500]})


def _data(decision: Decision) -> str | None:
    """The event's small JSON: enough to read a job's story without looking elsewhere."""
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


def _done(kernel: Kernel, job: Claimed) -> str | None:
    kind = kernel.registry.kinds.get(job.kind)
    return None if kind is None else done_after(kind, job)


def _former_results(kernel: Kernel, kept: DecidedEndings) -> list[NewResult]:
    """The results once more, under the names their stages had, for workers that know only those."""
    former = []
    for ending, decision in kept:
        kind, value = kernel.registry.kinds.get(ending.job.kind), _value(ending)
        if kind is not None and value is not None and decision.event == "advanced":
            names = former_names_done(kind, ending.job)
            former += [(ending.job.id, name, ending.job.attempt, 0, value) for name in names]
    return former


def _value(ending: Ending) -> str | None:
    return ending.value if isinstance(ending.outcome, VALUED) else None


async def _hook(kernel: Kernel, tx: Tx, ending: Ending, decision: Decision, now: int) -> None:
    """Let the job's own class write what belongs to the change, in the same transaction."""
    kind = kernel.registry.kinds.get(ending.job.kind)
    if kind is not None and kind.on_settled is not None:
        with span(f"{ending.job.kind} {decision.event}", ending.job.trace, {"job.id": ending.job.id}):
            change = Settled(ending.job, decision, ending.value, now)
            await kind.on_settled(kind.instance, JobTx(kernel, tx), change)


async def note_refused(tx: Tx, refused: DecidedEndings, now: int) -> None:
    """A fence refused them. Either we wrote this before and lost the answer, or the job went on without us: then its
    result is kept as a late one."""
    for ending, decision in refused:
        known = {row.type for row in await events.of_job(tx, ending.job.id) if row.attempt == ending.job.attempt}
        if decision.event in known and decision.event != "expired":
            continue  # our own commit, whose answer was lost
        value = _value(ending)
        if value is not None:
            await results.put(tx, [(ending.job.id, ending.job.stage, ending.job.attempt, 1, value)], now)
        if decision.event in known:
            continue  # a sweep was faster, or our own commit; the late value is kept once either way
        await events.append(
            tx, [(ending.job.id, ending.job.attempt, "stale", batch.text({"event": decision.event}))], now
        )


def channels_to_notify(kernel: Kernel, decided: DecidedEndings, now: int, going: Collection[str] = ()) -> list[str]:
    """Which channels to notify of these endings. Nobody needs to come for a job that its holder goes on with."""
    channels = set()
    kinds, awaited = kernel.registry.kinds, kernel.awaited if kernel.awaited else ()
    for ending, decision in decided:
        kind = kinds.get(ending.job.kind)
        is_due = decision.event == "advanced" or (decision.state is State.QUEUED and decision.run_at <= now)
        if is_due and ending.job.id not in going:
            channels.add(f"queue:{ending.job.queue}")
        if isinstance(ending.outcome, Parked):  # what it waits for may be there already
            channels.add("wakes")
        if kind is not None and kind.announce:
            channels.add("events")
        if decision.state in LEAVES_MORE:
            channels.add("events")
        if awaited and decision.state in TERMINAL and ending.job.id in awaited:
            channels.add(ended_channel(ending.job.id))
    return sorted(channels)

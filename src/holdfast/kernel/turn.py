"""One turn: what attempts came to is decided once, written once, and what is due is leased, in one commit.

    finished --decide_all--> decided --+
                                 +--> jobs.turn, and what belongs beside it --commit--> leased, refused
    room, declared stages -------+

Workers take turns. The reaper, the sweeps, callbacks and people use the half of it that ends attempts, inside a
transaction of their own (`end`). Both databases go this way; which of them it is, only `tables` asks.

Why so: docs/decisions/0016-one-turn.md
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from holdfast.core.address import sealed_number
from holdfast.core.budget import Gates
from holdfast.core.classify import classify
from holdfast.core.failure import Category, Failure, failure
from holdfast.core.floor import Floors
from holdfast.core.job import Claimed, State
from holdfast.core.outcome import Failed, Parked, Wait
from holdfast.core.redact import redact_stack
from holdfast.errors import StoreDown
from holdfast.kernel.go_on import Look, going_on, next_taken
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.kinds import JobKind
from holdfast.kernel.observe.report import report
from holdfast.kernel.settle import (
    DecidedEndings,
    Ending,
    LeasedJob,
    channels_to_notify,
    decide_all,
    ending_rows,
    gates_kept,
    gates_of,
    have_moved,
    is_plain,
    note_refused,
    split_accepted,
    write_beside,
)
from holdfast.kernel.upkeep.floors import watch_claims
from holdfast.kernel.upkeep.taking_turns import take_turns
from holdfast.stores.seam import Tx
from holdfast.tables import callbacks, jobs, results, secrets


async def turn(
    kernel: Kernel,
    owner: str,
    queues: Sequence[str],
    finished: Sequence[Ending],
    limit: int,
    *,
    goes_on: bool = False,
    look: Look | None = None,
) -> tuple[list[LeasedJob], int]:
    """End what is finished and lease up to `limit` due jobs, in one commit. A turn does not see what it puts back.

    Returns the leases and how much makes another look worth while: jobs that were parked or are due again, and
    whatever was written beside them. `goes_on`: the owner keeps the jobs that have a next stage, if it has not held
    them for long, or by its last `look` nobody more urgent waits; they come first, each as its next attempt. A crash
    before the commit changes nothing; after it, the leases expire and are reaped."""
    let_in = await take_turns(kernel, queues, limit)
    try:
        with kernel.floors.claims.claim(kernel.now) as claiming:
            written = None
            while written is None:
                gates = await gates_of(kernel, finished)
                now = kernel.now()
                decided = decide_all(kernel, finished, now, gates)
                plain = is_plain(kernel, decided)
                going = going_on(decided, now, look) if goes_on else set()
                claim = _claim(kernel, owner, queues, limit, now, claiming.floors)
                written = await _commit(kernel, decided, gates, going, claim, now, plain)
            result, kept, refused = written
            claiming.reached, claiming.entered = result.reached, result.entered
    except StoreDown:
        raise
    except Exception as error:  # an end that cannot be written: find it, and let the others pass
        if not finished:
            raise
        await end_apart(kernel, finished, error)
        return await turn(kernel, owner, queues, (), limit)
    watch_claims(kernel)
    report(kernel, kept, refused)
    if refused:
        async with kernel.store.transaction() as tx:
            await note_refused(tx, refused, now)
    kept_on = [next_taken(kernel, ending, d, now) for ending, d in kept if ending.job.id in result.went_on]
    put_back = sum(1 for _, d in kept if d.state is State.QUEUED and d.run_at <= now) - len(kept_on)
    again = result.parked + (not plain) + put_back + max(0, let_in - len(result.leased))
    return kept_on + await _with_results(kernel, result.leased, now), again


def _claim(kernel: Kernel, owner: str, queues: Sequence[str], limit: int, now: int, floors: Floors) -> jobs.Claim:
    lease_until = now + int(kernel.tuning.lease_s * 1_000)
    return jobs.Claim(owner, queues, kernel.registry.declared, limit, lease_until, floors)


async def _commit(
    kernel: Kernel,
    decided: DecidedEndings,
    gates: Gates,
    going: Collection[str],
    claim: jobs.Claim,
    now: int,
    plain: bool,
) -> tuple[jobs.TurnResult, DecidedEndings, DecidedEndings] | None:
    """A group that needs nothing beside the jobs' own rows is one statement, which is its own commit. None: we were
    paused, and a deadline has passed since it was decided, or a breaker that a death depends on has moved; nothing was
    written."""
    place = "settle" if decided else "claim"
    if plain:
        await kernel.failpoint(f"{place}.before_commit")
    async with kernel.store.single_statement() if plain else kernel.store.transaction() as tx:
        if _is_overtaken(decided, now, kernel.now()) or (not plain and await have_moved(tx, decided, gates)):
            return None
        written = await _write(kernel, tx, decided, going, claim, now, plain)
        if not plain:
            await kernel.failpoint(f"{place}.before_commit")
    await kernel.failpoint(f"{place}.after_commit")
    return written


def _is_overtaken(decided: DecidedEndings, decided_at: int, now: int) -> bool:
    """Whether a deadline lies between the decision and the write: time of receipt decides."""
    if now == decided_at:
        return False
    deadlines = [ending.job.deadline_at for ending, _ in decided]
    return any(at is not None and decided_at <= at < now for at in deadlines)


async def _write(
    kernel: Kernel, tx: Tx, decided: DecidedEndings, going: Collection[str], claim: jobs.Claim, now: int, plain: bool
) -> tuple[jobs.TurnResult, DecidedEndings, DecidedEndings]:
    """The one place where jobs enter and leave `processing`. Returns what came of it, the endings that were accepted,
    and those that a fence refused."""
    result = await jobs.turn(
        tx, ending_rows(kernel, decided, going), claim, now, channels_to_notify(kernel, decided, now, going)
    )
    kept, refused = split_accepted(decided, result.accepted)
    if not plain:
        await write_beside(kernel, tx, kept, now)
    return result, kept, refused


async def end(kernel: Kernel, tx: Tx, endings: Sequence[Ending]) -> set[str]:
    """End attempts in the caller's transaction; return the ids that were accepted. The caller commits."""
    now = kernel.now()
    decided = decide_all(kernel, endings, now, await gates_kept(tx, endings))
    result, kept, refused = await _write(kernel, tx, decided, (), jobs.NO_CLAIM, now, is_plain(kernel, decided))
    await note_refused(tx, refused, now)
    tx.after_commit(lambda: report(kernel, kept, refused))
    return result.accepted


async def end_apart(kernel: Kernel, endings: Sequence[Ending], error: Exception) -> set[str]:
    """End each in a transaction of its own, because one of them cannot be written. One bad hook, wait key or message
    must not hold up its neighbours: what cannot be written as it is becomes a dead letter that says why."""
    kernel.watch.log("settle.spoiled", jobs=len(endings), error=f"{type(error).__name__}: {error}")
    accepted: set[str] = set()
    for ending in endings:
        try:
            accepted |= await _end_alone(kernel, ending)
        except StoreDown:
            raise
        except Exception as problem:
            bug = Failed(replace(await _why_unwritable(kernel, ending, problem), stack=redact_stack(problem)))
            accepted |= await _end_alone(
                kernel, replace(ending, outcome=bug, messages=[], events=[], is_unwritable=True)
            )
    return accepted


async def _why_unwritable(kernel: Kernel, ending: Ending, problem: Exception) -> Failure:
    """A key is waited for by one job at a time: whose fault that is, it is no riddle."""
    key = ending.outcome.key if isinstance(ending.outcome, Parked | Wait) else None
    if key is not None:
        async with kernel.store.reading() as tx:
            waiter = await callbacks.waiter(tx, key)
        if waiter not in (None, ending.job.id):
            return failure(
                Category.BUG,
                "USAGE_ERROR",
                f"Job {waiter} waits for '{key}' already, and an answer is given to one job; "
                "put what tells the jobs apart into the key, as in f'approve/{ctx.job_id}'.",
            )
    return replace(classify(problem), category=Category.BUG, error_class="SETTLE_FAILED", retryable=False)


async def _end_alone(kernel: Kernel, ending: Ending) -> set[str]:
    async with kernel.store.transaction() as tx:
        return await end(kernel, tx, [ending])


async def claim_one(kernel: Kernel, owner: str, job_id: str) -> LeasedJob | None:
    """Lease one job by its id; None if it is not due, held, or already taken. For engines that carry ids."""
    now = kernel.now()
    async with kernel.store.single_statement() as tx:
        job = await jobs.claim_one(tx, job_id, _claim(kernel, owner, (), 1, now, {}), now)
        if job is None:
            return None
        await kernel.failpoint("claim.before_commit")
    await kernel.failpoint("claim.after_commit")
    return (await _with_results(kernel, [job], now))[0]


async def _with_results(kernel: Kernel, leased: Sequence[Claimed], now: int) -> list[LeasedJob]:
    """What the jobs' stages need from earlier ones; nobody else writes results of a job that we hold."""
    kinds = [kernel.registry.kinds[name] for name in {job.kind for job in leased} & kernel.registry.kinds.keys()]
    staged = {kind.name: kind for kind in kinds if len(kind.stages) > 1}
    sealing = {kind.name for kind in kinds if kind.seals}
    later = [job.id for job in leased if job.kind in staged and _has_earlier_stage(staged[job.kind], job)]
    hidden = [job.id for job in leased if job.kind in sealing and sealed_number(job.payload) is not None]
    if not later and not hidden:
        return [LeasedJob(job, since=now) for job in leased]
    async with kernel.store.reading() as tx:
        stored = await results.of_jobs(tx, later) if later else {}
        sealed = await secrets.of_owners(tx, hidden) if hidden else {}
    return [LeasedJob(job, stored.get(job.id, {}), now, sealed=sealed.get(job.id, {})) for job in leased]


def _has_earlier_stage(kind: JobKind, job: Claimed) -> bool:
    return kind.stages[0].name != job.stage or job.done != ""

"""Takes work: the one place where a job enters `processing`. Settling the last group rides in the same commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.core.job import Claimed, State
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.report import report
from holdfast.kernel.settle import (
    AWAY,
    Ends,
    Settlement,
    decided,
    gates_of,
    hints,
    is_plain,
    lefts,
    parted,
    settle,
    settle_apart,
)
from holdfast.stores.seam import Tx
from holdfast.tables import events, jobs, results


@dataclass(frozen=True, slots=True)
class Taken:
    """A leased job and the results of its earlier stages."""

    job: Claimed
    results: dict[str, str] = field(default_factory=dict)


async def step(
    kernel: Kernel, owner: str, queues: Sequence[str], finished: Sequence[Settlement], limit: int
) -> tuple[list[Taken], int]:
    """Settle what is finished and lease up to `limit` due jobs, in one commit.

    Returns the leases and how many jobs moved in a way that makes another look worth while: parked, or due again. A
    crash before the commit changes nothing; after it, the leases expire and are reaped."""
    now = kernel.now()
    is_one_statement = kernel.store.dialect == "postgres"
    ends = decided(kernel, finished, now, await gates_of(kernel, finished)) if is_one_statement else ()
    try:
        if kernel.store.dialect == "sqlite" or not is_plain(kernel, ends):
            return await _in_turn(kernel, owner, queues, finished, limit)
        done = await _at_once(kernel, owner, queues, ends, limit, now)
    except AWAY:
        raise
    except Exception as error:  # a settlement that cannot be written: find it, and let the others pass
        if not finished:
            raise
        await settle_apart(kernel, finished, error)
        return await step(kernel, owner, queues, [], limit)
    return await _after(kernel, ends, done, now)


async def _in_turn(
    kernel: Kernel, owner: str, queues: Sequence[str], finished: Sequence[Settlement], limit: int
) -> tuple[list[Taken], int]:
    taken: list[Taken] = []
    again = 0
    async with kernel.store.transaction() as tx:
        if finished:
            await settle(kernel, tx, finished)
        if limit > 0:
            taken, again = await claim(kernel, tx, owner, queues, limit)
        await kernel.failpoint("settle.before_commit" if finished else "claim.before_commit")
    await kernel.failpoint("settle.after_commit" if finished else "claim.after_commit")
    return taken, again


async def _at_once(kernel: Kernel, owner: str, queues: Sequence[str], ends: Ends, limit: int, now: int) -> jobs.Stepped:
    """All of it as one statement, which is its own commit."""
    await kernel.failpoint("settle.before_commit" if ends else "claim.before_commit")
    lease_until = now + int(kernel.tuning.lease_s * 1_000)
    declared = kernel.registry.declared
    async with kernel.store.alone() as tx:
        done = await jobs.step(
            tx, lefts(kernel, ends), queues, declared, limit, owner, now, lease_until, hints(kernel, ends, now)
        )
    await kernel.failpoint("settle.after_commit" if ends else "claim.after_commit")
    return done


async def _after(kernel: Kernel, ends: Ends, done: jobs.Stepped, now: int) -> tuple[list[Taken], int]:
    """What need not be in that commit. What was refused comes through the door once more, in a transaction that notes
    it; and nobody else writes results of a job that we hold."""
    kept, refused = parted(ends, done.accepted)
    report(kernel, kept, ())
    if refused:
        await settle_apart(kernel, [one for one, _ in refused])
    again = done.parked + sum(1 for _, d in kept if d.state is State.QUEUED and d.run_at <= now)
    if not any(_has_earlier_stage(kernel, job) for job in done.leased):
        return [Taken(job) for job in done.leased], again
    async with kernel.store.reading() as tx:
        return await _with_results(kernel, tx, done.leased), again


async def claim(kernel: Kernel, tx: Tx, owner: str, queues: Sequence[str], limit: int) -> tuple[list[Taken], int]:
    """Lease due jobs in an open transaction, with what their stages need from earlier ones."""
    now = kernel.now()
    lease_until = now + int(kernel.tuning.lease_s * 1_000)
    claimed, parked = await jobs.claim(tx, queues, kernel.registry.declared, limit, owner, now, lease_until)
    return await _with_results(kernel, tx, claimed), parked


async def claim_one(kernel: Kernel, owner: str, job_id: str) -> Taken | None:
    """Lease one job by its id; None if it is not due, held, or already taken. For engines that carry ids."""
    async with kernel.store.transaction() as tx:
        now = kernel.now()
        lease_until = now + int(kernel.tuning.lease_s * 1_000)
        job = await jobs.claim_one(tx, job_id, kernel.registry.declared, owner, now, lease_until)
        if job is None:
            return None
        await events.append(tx, [(job.id, job.attempt, "claimed", None)], now)
        taken = (await _with_results(kernel, tx, [job]))[0]
        await kernel.failpoint("claim.before_commit")
    await kernel.failpoint("claim.after_commit")
    return taken


async def _with_results(kernel: Kernel, tx: Tx, claimed: Sequence[Claimed]) -> list[Taken]:
    later = [job.id for job in claimed if _has_earlier_stage(kernel, job)]
    found = await results.of_jobs(tx, later) if later else {}
    return [Taken(job, found.get(job.id, {})) for job in claimed]


def _has_earlier_stage(kernel: Kernel, job: Claimed) -> bool:
    kind = kernel.registry.kinds.get(job.kind)
    return kind is not None and (kind.stages[0].name != job.stage or job.done != "")

"""What a person may do to a job's place: bring it forward, run it now, delete it when it has ended. All audited."""

from __future__ import annotations

from holdfast.core.case import CaseState
from holdfast.core.job import LIVE, PRIORITIES, State
from holdfast.errors import InvalidInput, NotAllowed, NotFound
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.questions.explain import iso
from holdfast.kernel.upkeep.prune import forget_rows
from holdfast.stores.seam import Tx
from holdfast.tables import audit, jobs, ops, places
from holdfast.tables.job_rows import JobDetails
from holdfast.tables.ops import CaseSummary


async def set_priority(kernel: Kernel, job_id: str, priority: int, *, actor: str) -> None:
    """Give a job that has not ended another priority; what it waits for otherwise stays as it is."""
    if priority not in PRIORITIES:
        raise InvalidInput(f"The priority must be {PRIORITIES[0]} (urgent) to {PRIORITIES[-1]} (low), not {priority}.")
    async with kernel.store.transaction() as tx:
        job, now = await _read(tx, job_id), kernel.now()
        queue = await places.set_priority(tx, job_id, priority, now)
        if queue is None:
            raise NotAllowed(f"Job {job_id} is {job.state}; only a job that has not ended has a priority.")
        data = {"from": job.priority, "to": priority}
        await audit.write(tx, actor, "job.priority", f"job:{job_id}", data, now)
        await tx.notify(f"queue:{queue}")


async def run_now(kernel: Kernel, job_id: str, *, actor: str) -> None:
    """Make a job due that is queued for later. A wait that a provider asked for is kept, and a breaker or a pause that
    holds it too."""
    async with kernel.store.transaction() as tx:
        job, now = await _read(tx, job_id), kernel.now()
        queue = await places.run_now(tx, job_id, now)
        if queue is None:
            raise NotAllowed(f"Job {job_id} cannot run now. {why_not_now(job, now)}")
        await audit.write(tx, actor, "job.run_now", f"job:{job_id}", {"run_at": iso(job.run_at)}, now)
        await tx.notify(f"queue:{queue}")


def why_not_now(job: JobDetails, now: int) -> str | None:
    """Why a job cannot be made due, in a sentence; None if it can."""
    if job.state != State.QUEUED:
        return f"It is {job.state}: only a queued job can."
    if job.not_before is not None and job.not_before > now:
        return f"Its provider has asked to wait until {iso(job.not_before)}."
    return None if job.run_at > now else "It is due already."


async def delete(kernel: Kernel, job_id: str, *, actor: str) -> None:
    """Delete a job that has ended, with its history, as retention would: the ledger of its effects stays. Its key is
    free again."""
    async with kernel.store.transaction() as tx:
        job = await _read(tx, job_id)
        case = await ops.case_of_job(tx, job_id)
        if not await places.remove(tx, job_id):
            raise NotAllowed(f"Job {job_id} cannot be deleted. {why_not_deleted(job, case)}")
        await forget_rows(tx, [job_id])
        await audit.write(tx, actor, "job.deleted", f"job:{job_id}", {"kind": job.kind}, kernel.now())


def why_not_deleted(job: JobDetails, case: CaseSummary | None) -> str | None:
    """Why a job cannot be deleted, in a sentence; None if nothing that is known here speaks against it."""
    if State(job.state) in LIVE:
        return f"It is {job.state}: only a job that has ended can be."
    if case is not None and case.state != CaseState.RESOLVED:
        return "Its dead letter is not resolved."
    return "Another job has started it, and may ask how it ended."


async def _read(tx: Tx, job_id: str) -> JobDetails:
    job = await jobs.show(tx, job_id)
    if job is None:
        raise NotFound(f"There is no job {job_id}.")
    return job

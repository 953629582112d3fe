"""What a person may do: cancel a job, publish a message again, and work a dead letter through its steps. All audited.

triage (cause) -> remediate (evidence) -> replay (from the failed stage) -> resolve (after it succeeded, with notes)
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.core.case import STEPS, CaseState, Cause, why_not, why_unverified
from holdfast.core.job import LIVE, State
from holdfast.core.outcome import Withdrawn
from holdfast.core.redact import redact_text
from holdfast.errors import InvalidInput, NotAllowed, NotFound
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.settle import Ending
from holdfast.kernel.turn import end
from holdfast.stores.seam import Tx
from holdfast.tables import audit, batch, cases, events, jobs, outbox, results, secrets
from holdfast.tables.cases import CaseToStep

NOTES_LENGTH_MAX = 4_000


async def cancel(kernel: Kernel, job_id: str, actor: str) -> str:
    """End a live job at once. A worker that is running it finds its lease gone and can write nothing more."""
    async with kernel.store.transaction() as tx:
        locked = await jobs.lock_one(tx, job_id)
        if locked is None:
            raise NotFound(f"There is no job {job_id}.")
        job, provider = locked
        if State(job.state) not in LIVE:
            raise NotAllowed(f"Job {job_id} is {job.state}; only a job that has not ended can be cancelled.")
        ending = Ending(job, Withdrawn(actor), expected=State(job.state), provider=provider)
        await end(kernel, tx, [ending])
        await audit.write(tx, actor, "job.cancelled", f"job:{job_id}", None, kernel.now())
    return job_id


async def requeue(kernel: Kernel, message_id: str, actor: str) -> bool:
    """Publish a message again that was set aside after its last try; False if there is none."""
    async with kernel.store.transaction() as tx:
        if not await outbox.requeue(tx, message_id, kernel.now()):
            return False
        await audit.write(tx, actor, "outbox.requeued", f"message:{message_id}", None, kernel.now())
        await tx.notify("outbox")
    return True


async def triage(kernel: Kernel, case_id: str, *, cause: str, actor: str, notes: str | None = None) -> None:
    """Say what kind of cause it was."""
    if cause not in set(Cause):
        raise InvalidInput(f"The cause '{cause}' must be one of {', '.join(Cause)}.")
    await _step(kernel, case_id, "triage", actor, cause=cause, notes=notes)


async def remediate(kernel: Kernel, case_id: str, *, evidence: str, actor: str) -> None:
    """Record what was fixed and how that is known. A replay refuses without it."""
    if not evidence.strip():
        raise InvalidInput("Evidence must say what was fixed; it is empty.")
    await _step(kernel, case_id, "remediate", actor, evidence=evidence)


async def resolve(
    kernel: Kernel, case_id: str, *, actor: str, notes: str | None = None, without_replay: str | None = None
) -> None:
    """Close the case: its replayed job has succeeded, or `without_replay` says why no such proof is needed.

    Refused while the job runs. What is said is kept as the case's notes."""
    reason = check_resolution(notes, without_replay)
    spoken = [notes] if reason is None else [f"Without a replay: {reason}", notes]
    text = _cleaned("\n".join(part.strip() for part in spoken if part and part.strip()))
    async with kernel.store.transaction() as tx:
        case = await _locked(tx, case_id)
        after = _check(case, "resolve")
        before, now = CaseState(case.state), kernel.now()
        job = await jobs.lock_one(tx, case.job_id)
        problem = why_unverified(before, None if job is None else job[0].state, reason)
        if problem is not None:
            raise NotAllowed(f"Dead letter {case_id} cannot be resolved. {problem}")
        await cases.step(tx, case_id, before, after, now, notes=text)
        await secrets.forget(tx, [case.job_id])  # nothing replays it any more
        data = {"notes": text, "from": before}
        if reason is not None:
            data["without_replay"] = _cleaned(reason)
        await audit.write(tx, actor, f"case.{after}", f"case:{case_id}", data, now)


def check_resolution(notes: str | None, without_replay: str | None) -> str | None:
    """The reason for closing a case without a replay, if one is given; refuses what says nothing."""
    if without_replay is not None and not without_replay.strip():
        raise InvalidInput("The reason for resolving without a replay must not be empty.")
    if without_replay is None and not (notes or "").strip():
        raise InvalidInput("Resolution notes must not be empty.")
    return None if without_replay is None else without_replay.strip()


@dataclass(frozen=True, slots=True)
class Replayed:
    job_id: str
    stage: str
    run_at: int


async def replay(kernel: Kernel, case_id: str, *, actor: str, full: bool = False, delay_s: float = 0.0) -> Replayed:
    """Put the job back at its failed stage (or at its first, if `full`), with fresh budgets, a fresh deadline and its
    history.

    Completed stages keep their results unless `full`. A wait that the provider asked for is still respected."""
    async with kernel.store.transaction() as tx:
        case = await _locked(tx, case_id)
        _check(case, "replay")
        if not case.evidence:
            raise NotAllowed(f"Dead letter {case_id} has no recorded remediation; record it before a replay.")
        done = await _revive(kernel, tx, case, full, delay_s)
        state = CaseState(case.state)
        await cases.step(tx, case_id, state, CaseState.REPLAYED, kernel.now(), replays=1)
        data = {"full": full, "stage": done.stage, "run_at": done.run_at}
        await audit.write(tx, actor, "case.replayed", f"case:{case_id}", data, kernel.now())
        await kernel.failpoint("replay.before_commit")
    return done


async def retry_dead(kernel: Kernel, tx: Tx, job_id: str, *, actor: str, evidence: str) -> Replayed:
    """Put a dead job back in the caller's transaction, for whoever owns it and may ask for that without an operator.

    All steps of the case in one, with the owner's word as evidence: audited, fenced, and with fresh budgets."""
    locked = await jobs.lock_one(tx, job_id)
    if locked is None:
        raise NotFound(f"There is no job {job_id}.")
    letter = await cases.lock_of_job(tx, job_id)
    if locked[0].state != State.DEAD or letter is None:
        raise NotAllowed(f"Job {job_id} is {locked[0].state}; only a dead job can be retried.")
    case = await _locked(tx, letter.id)
    done = await _revive(kernel, tx, case, full=False, delay_s=0.0)
    before = CaseState(case.state)
    await cases.step(tx, letter.id, before, CaseState.REPLAYED, kernel.now(), evidence=_cleaned(evidence), replays=1)
    data = {"stage": done.stage, "run_at": done.run_at, "from": before, "by": "owner"}
    await audit.write(tx, actor, "case.replayed", f"case:{letter.id}", data, kernel.now())
    return done


async def _revive(kernel: Kernel, tx: Tx, case: CaseToStep, full: bool, delay_s: float) -> Replayed:
    """Back to the failed stage, or to an earlier one whose input was corrected: what it returned is forgotten."""
    job_id, now = case.job_id, kernel.now()
    kind = kernel.registry.kind(case.kind)
    start = case.replay_stage or case.stage
    stage = kind.stages[0] if full else kind.by_name.get(start)
    if stage is None:
        raise NotAllowed(f"'{kind.name}' has no stage '{start}' any more; ask for a full restart.")
    done = None
    if full:
        await results.clear(tx, job_id)
        done = ""
    elif case.replay_stage:
        at = kind.stages.index(stage)
        await results.clear_stages(tx, job_id, [each.name for each in kind.stages[at:]])
        done = ",".join(each.name for each in kind.stages[:at])
    run_at = now + int(delay_s * 1_000)
    row = await jobs.revive(tx, job_id, stage.name, stage.plan.provider, run_at, now, done=done)
    if row is None:
        raise NotAllowed(f"Job {job_id} is not dead any more; it cannot be replayed.")
    details = {"stage": stage.name, "full": full, "run_at": row.run_at}
    data = batch.text(details | ({"corrected": True} if case.replay_stage and not full else {}))
    await events.append(tx, [(job_id, row.attempt, "replayed", data)], now)
    await tx.notify(f"queue:{row.queue}")
    return Replayed(job_id, stage.name, row.run_at)


async def _step(
    kernel: Kernel,
    case_id: str,
    action: str,
    actor: str,
    *,
    cause: str | None = None,
    evidence: str | None = None,
    notes: str | None = None,
) -> None:
    evidence, notes = _cleaned(evidence), _cleaned(notes)
    async with kernel.store.transaction() as tx:
        case = await _locked(tx, case_id)
        after = _check(case, action)
        now = kernel.now()
        before = CaseState(case.state)
        await cases.step(tx, case_id, before, after, now, cause=cause, evidence=evidence, notes=notes)
        data = {"cause": cause, "evidence": evidence, "notes": notes, "from": before}
        noted = {name: value for name, value in data.items() if value is not None}
        await audit.write(tx, actor, f"case.{after}", f"case:{case_id}", noted, now)


async def _locked(tx: Tx, case_id: str) -> CaseToStep:
    case = await cases.lock(tx, case_id)
    if case is None:
        raise NotFound(f"There is no dead letter {case_id}.")
    return case


def _check(case: CaseToStep, action: str) -> CaseState:
    problem = why_not(CaseState(case.state), action)
    if problem is not None:
        raise NotAllowed(problem)
    return STEPS[action][1]


def _cleaned(text: str | None) -> str | None:
    return None if text is None else redact_text(text.strip())[:NOTES_LENGTH_MAX]

"""Opens the case of a job that died, with everything a person needs and nothing they must not see."""

from __future__ import annotations

import hashlib
from typing import Any

from holdfast.core.case import CaseState, fingerprint, reopened
from holdfast.core.decide import Decision
from holdfast.core.job import Claimed
from holdfast.core.redact import redact, redact_lines, redact_message
from holdfast.kernel.kernel import Kernel
from holdfast.stores.seam import Tx
from holdfast.tables import audit, batch, cases, events

ERROR_LENGTH_MAX = 2_000
STACK_LENGTH_MAX = 8_000


async def bury(kernel: Kernel, tx: Tx, job: Claimed, decision: Decision, now: int) -> str:
    """Write the dead letter in the transaction that ends the job; return the case's id."""
    why = decision.failure
    assert why is not None and decision.buried is not None, "the dead have a reason"
    decision.attempts_made = await events.failed_in_stage(tx, job.id) + decision.is_attempt
    known = await cases.lock_of_job(tx, job.id)
    state = reopened(
        CaseState(known.state) if known else None,
        known.error_class if known else None,
        why.error_class,
        why.retryable,
    )
    letter = {
        "id": known.id if known else kernel.new_id(),
        "job_id": job.id,
        "request_id": redact_message(job.trace)
        if job.trace
        else job.id,  # never the owner: people's names do not belong into a letter
        "kind": job.kind,
        "stage": job.stage,
        "provider": decision.provider,
        "state": state,
        "error_class": why.error_class,
        "category": why.category,
        "retryable": int(why.retryable),
        "failure_reason": decision.buried,
        "attempts_made": decision.attempts_made,
        "last_error": redact_message(why.message)[:ERROR_LENGTH_MAX],
        "last_stack": redact_lines(why.stack)[:STACK_LENGTH_MAX],
        "first_failure_at": decision.first_failure_at or now,
        "original": f"holdfast_jobs/{job.id}",
        "sanitized_context": batch.text(redact(_context(job, decision), personal=True)),
        "fingerprint": fingerprint(job.kind, job.stage, why.error_class, decision.provider, why.origin),
    }
    row = await cases.open(tx, letter, now)
    action = "case.escalated" if state is CaseState.ESCALATED else "case.opened"
    data = {"error_class": why.error_class, "reason": decision.buried, "deaths": row.deaths}
    await audit.write(tx, "kernel", action, f"case:{row.id}", data, now)
    cause = kernel.registry.public_failure(job.kind, why, job.stage).cause
    tx.after_commit(
        lambda: kernel.watch.count("dead_letters_opened", kind=job.kind, error_class=why.error_class, cause=cause)
    )
    return str(row.id)


def _context(job: Claimed, decision: Decision) -> dict[str, Any]:
    """Ids, counts and hashes: never the payload itself, which stays in its own row for the replay."""
    why = decision.failure
    assert why is not None
    return {
        "job_id": job.id,
        "kind": job.kind,
        "stage": job.stage,
        "attempt": job.attempt,
        "failures": decision.failures,
        "crashes": decision.crashes,
        "epoch": job.epoch,
        "priority": job.priority,
        "provider": decision.provider,
        "provider_status": why.status,
        "category": why.category,
        "ambiguous": why.ambiguous,
        "retry_after_ms": why.retry_after_ms,
        "deadline_at": job.deadline_at,
        "payload_sha256": hashlib.sha256(job.payload.encode()).hexdigest()[:16],
        "payload_bytes": len(job.payload),
        "trace": job.trace,
    }

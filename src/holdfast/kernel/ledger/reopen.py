"""Reopens a job that has ended although its effect did not happen: the provider does not know what was marked as sent.

    succeeded --taken_back--> dead    a case is opened; its replay begins at the stage of the effect
    dead                              its case stays; a replay begins at the stage of the effect, if that comes earlier

Nothing runs again by itself: a second run publishes the stage's messages a second time and calls `settled` a second
time, and whoever acted on the success must know. An app that knows how to put it right does so (`Job.taken_back`).

Why so: docs/decisions/0017-a-success-without-evidence-is-a-dead-letter.md
"""

from __future__ import annotations

from holdfast.core.decide import Decision
from holdfast.core.effect import EffectRow
from holdfast.core.failure import Category, failure
from holdfast.core.job import LIVE, Claimed, State
from holdfast.core.redact import redact_text
from holdfast.kernel.app import TakenBack
from holdfast.kernel.bury import bury
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.kinds import JobKind
from holdfast.stores.seam import Tx
from holdfast.tables import batch, cases, effects, events, jobs


async def lock_ended(tx: Tx, effect: EffectRow) -> Claimed | None:
    """The job of an effect, locked; None if nobody will answer for it any more. Raises `StillRuns` for a live one."""
    locked = await jobs.lock_one(tx, effect.job_id) if effect.job_id else None
    if locked is None:
        return None
    if State(locked[0].state) in LIVE:
        raise StillRuns
    return locked[0]


class StillRuns(Exception):
    """The job of an effect has not ended: whether it needs to be reopened is known only then."""


async def reopen(kernel: Kernel, tx: Tx, effect: EffectRow, job: Claimed, now: int) -> None:
    """Let somebody answer for an effect whose marks have just been cleared, in the same transaction."""
    kind = kernel.registry.kinds.get(job.kind)
    if kind is None:
        return
    stage = await effects.stage_of(tx, effect.key)
    if await kind.instance.taken_back(kernel, tx, TakenBack(job.id, effect.key, stage)):
        return
    if job.state == State.SUCCEEDED:
        await _bury(kernel, tx, effect, job, stage, now)
        await cases.begin_at(tx, job.id, stage)
    elif job.state == State.DEAD:
        case = await cases.lock_of_job(tx, job.id)
        begins_at = (case and case.replay_stage) or job.stage
        if _comes_first(kind, stage, begins_at):
            await cases.begin_at(tx, job.id, stage)


def _comes_first(kind: JobKind, stage: str, other: str) -> bool:
    names = [each.name for each in kind.stages]
    return stage in names and other in names and names.index(stage) < names.index(other)


async def _bury(kernel: Kernel, tx: Tx, effect: EffectRow, job: Claimed, stage: str, now: int) -> None:
    name = redact_text(effect.key)
    message = f"The effect '{name}' was marked as sent, and '{effect.provider}' does not know it: it did not happen."
    why = failure(Category.UPSTREAM, "EFFECT_TAKEN_BACK", message)
    decision = Decision(
        State.DEAD,
        "taken_back",
        stage,
        now,
        job.failures,
        job.crashes,
        effect.provider,
        first_failure_at=now,
        failure=why,
        buried="taken_back",
        is_attempt=False,
    )
    error = batch.text({"error_class": why.error_class, "message": message})
    await events.write_success(tx, job.id)
    await jobs.take_back(tx, job.id, stage, error, now)
    await events.append(tx, [(job.id, job.attempt, "taken_back", batch.text({"stage": stage, "effect": name}))], now)
    await bury(kernel, tx, job._replace(stage=stage), decision, now)

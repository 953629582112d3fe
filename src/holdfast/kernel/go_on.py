"""Going on: a worker that has brought a job through a stage keeps it for the next one.

    processing #1 --advanced, claimed--> processing #2      one version of the row, one commit

It is the end of one attempt and the claim of the next in one write: the same fence, the result stored, a new number,
and no entry into a stage whose provider is held (`jobs.turn` sees to that). What the next stage needs of earlier stages
is handed on in memory. A worker that is to stop goes on with nothing.

A place that is kept is one that somebody else waits for. So a job keeps its place for a second after its claim, and
longer only while the worker, whose claims take the most urgent first, has just seen that nobody more urgent waits.

Why so: docs/decisions/0022-going-on.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.core.decide import Decision
from holdfast.core.job import Priority
from holdfast.core.outcome import Next
from holdfast.kernel.declare.path import done_after
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.settle import DecidedEndings, Ending, LeasedJob
from holdfast.tables import batch

GOES_ON_MS = 1_000
"""For how long after its claim a job may keep its place from one stage to the next, and for how long a worker trusts
its last look at the queue. Then the job goes back to the queue and takes its turn by priority and age."""


class Look(NamedTuple):
    """When a worker last looked for work, and the priority down to which it left nothing behind that is more urgent."""

    at: int
    priority: int


def next_look(before: Look | None, room: int, began: int, taken: Sequence[LeasedJob], again: int) -> Look | None:
    """What a turn with so much room has seen of the queue. A claim takes the most urgent first: what it leaves behind
    is no more urgent than the last that it took."""
    claimed = [leased.job.priority for leased in taken if not leased.went_on]
    if len(claimed) + again < room:
        return Look(began, Priority.LOW)  # that was all there was
    return Look(began, max(claimed)) if room > 0 and claimed else before


def going_on(decided: DecidedEndings, now: int, look: Look | None) -> set[str]:
    """The jobs that their holder goes on with, if the write allows it."""
    return {
        ending.job.id for ending, decision in decided if decision.event == "advanced" and may_go_on(ending, now, look)
    }


def may_go_on(ending: Ending, now: int, look: Look | None) -> bool:
    """Whether another attempt of the job may follow at once, as far as that is known before it is decided. Where the
    stage has a result already, that stands: the job is claimed again, and it is read."""
    taken = ending.taken
    return (
        taken is not None
        and isinstance(ending.outcome, Next)
        and (now - taken.since < GOES_ON_MS or _nobody_waits(ending, now, look))
        and ending.job.stage not in taken.results
    )


def _nobody_waits(ending: Ending, now: int, look: Look | None) -> bool:
    """Whether the worker has just seen that nobody more urgent waits for the job's place."""
    return look is not None and ending.job.priority <= look.priority and now - look.at < GOES_ON_MS


def next_taken(kernel: Kernel, ending: Ending, decision: Decision, now: int) -> LeasedJob:
    """The job as its row is once it went on, with what its next stage may need."""
    assert ending.taken is not None, "only a job that a worker was given goes on"
    results = ending.taken.results
    if ending.value is not None:
        results = {**results, ending.job.stage: batch.storable(ending.value)}
    job = ending.job._replace(
        stage=decision.stage,
        attempt=ending.job.attempt + 1,
        failures=decision.failures,
        crashes=decision.crashes,
        first_failure_at=decision.first_failure_at,
        not_before=decision.not_before,
        done=done_after(kernel.registry.kinds[ending.job.kind], ending.job),
        tally=decision.tally,
        last_attempt_at=now,
    )
    return LeasedJob(job, results, ending.taken.since, went_on=True, sealed=ending.taken.sealed)

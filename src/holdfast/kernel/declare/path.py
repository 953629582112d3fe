"""Where a job stands in the code that is loaded, which need not be the code that brought it there.

A job remembers the names of the stages it has done. It belongs at the first stage of the present code that is not among
them: what was inserted before it is run first, what was moved or split is not run again, and a stage goes by its former
names too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from holdfast.core.job import Claimed
from holdfast.kernel.kinds import JobKind, Stage


def stored_result(stage: Stage, results: Mapping[str, str]) -> str | None:
    """The stage's result as JSON, under its name or one that it had."""
    return next((results[name] for name in (stage.name, *stage.formerly) if name in results), None)


def earlier_stage(kind: JobKind, job: Claimed, results: Mapping[str, str]) -> Stage | None:
    """The first stage that must be done before the one the job stands at, and is not. None is the usual answer. A job
    that stands at the name of what was split begins with the first part: under the old name it would be all of it."""
    if len(kind.stages) == 1:
        return None
    here = kind.by_name[job.stage]
    if _is_split(kind, job.stage):
        return here
    if here.name == kind.stages[0].name:
        return None
    if job.done is None:  # nobody wrote down what is done: only a result that is needed and missing says it
        needed = (kind.by_name[name] for name in here.needs)
        return next(
            (earlier for earlier in needed if not earlier.may_be_none and stored_result(earlier, results) is None), None
        )
    done = job.done.split(",")
    return next((earlier for earlier in _before(kind, here) if not _is_done(earlier, done)), None)


def stage_after(kind: JobKind, job: Claimed) -> Stage | None:
    """The first stage that is not done once the present one is; None: the job has succeeded."""
    if len(kind.stages) == 1:
        return None
    done = done_after(kind, job).split(",")
    return next((stage for stage in kind.stages if not _is_done(stage, done)), None)


def done_after(kind: JobKind, job: Claimed) -> str:
    """The names that are done once the present stage is. A former name is done when all stages that bear it are, so
    that older code, which knows only that name, runs none of it again."""
    here = kind.by_name[job.stage]
    known = [each.name for each in _before(kind, here)] if job.done is None else [n for n in job.done.split(",") if n]
    done = dict.fromkeys([*known, job.stage, here.name])
    for old in here.formerly:
        if all(each.name in done for each in kind.stages if old in each.formerly):
            done[old] = None
    return ",".join(done)


def former_names_done(kind: JobKind, job: Claimed) -> list[str]:
    """The former names under which the present stage's result is kept as well: for workers of older code."""
    here = kind.by_name[job.stage]
    after = done_after(kind, job).split(",")
    return [old for old in here.formerly if old in after and old != job.stage]


def _is_split(kind: JobKind, name: str) -> bool:
    return sum(name in stage.formerly for stage in kind.stages) > 1


def _before(kind: JobKind, here: Stage) -> list[Stage]:
    names = [stage.name for stage in kind.stages]
    return list(kind.stages[: names.index(here.name)])


def _is_done(stage: Stage, done: Collection[str]) -> bool:
    return stage.name in done or any(old in done for old in stage.formerly)

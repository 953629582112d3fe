"""Where a job stands in the code that is loaded, which need not be the code that brought it there.

A job remembers the names of the stages it has done. It belongs at the first stage of the present code that is not among
them: what was inserted before it is run first, what was moved or split is not run again, and a stage goes by its former
names too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from holdfast.core.job import Claimed
from holdfast.kernel.kinds import JobKind, Stage

PLACES_MAX = 1_000
"""How many places of a kind are remembered: what is done may be any text of a row."""


class Way(NamedTuple):
    """From where a job stands: what must be done before, what comes next, and what is done by then."""

    earlier: Stage | None
    after: Stage | None
    done: str


def stored_result(stage: Stage, results: Mapping[str, str]) -> str | None:
    """The stage's result as JSON, under its name or one that it had."""
    return next((results[name] for name in (stage.name, *stage.formerly) if name in results), None)


def earlier_stage(kind: JobKind, job: Claimed, results: Mapping[str, str]) -> Stage | None:
    """The first stage that must be done before the one the job stands at, and is not. None is the usual answer. A job
    that stands at the name of what was split begins with the first part: under the old name it would be all of it."""
    if len(kind.stages) == 1:
        return None
    if job.done is not None:
        return _way(kind, job).earlier
    here = kind.by_name[job.stage]
    if _is_split(kind, job.stage):
        return here
    # Nobody wrote down what is done: only a result that is needed and missing says it.
    needed = (kind.by_name[name] for name in here.needs)
    return next(
        (earlier for earlier in needed if not earlier.may_be_none and stored_result(earlier, results) is None), None
    )


def stage_after(kind: JobKind, job: Claimed) -> Stage | None:
    """The first stage that is not done once the present one is; None: the job has succeeded."""
    if len(kind.stages) == 1:
        return None
    return _way(kind, job).after


def done_after(kind: JobKind, job: Claimed) -> str:
    """The names that are done once the present stage is. A former name is done when all stages that bear it are, so
    that older code, which knows only that name, runs none of it again."""
    return _way(kind, job).done


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


def _way(kind: JobKind, job: Claimed) -> Way:
    """Every attempt asks for it several times, and most jobs of a kind stand at one of a few places."""
    place = job.stage, job.done
    way = kind.ways.get(place)
    if way is None:
        if len(kind.ways) >= PLACES_MAX:
            kind.ways.clear()
        way = kind.ways[place] = _find_way(kind, *place)
    return way


def _find_way(kind: JobKind, name: str, done: str | None) -> Way:
    here = kind.by_name[name]
    before = _before(kind, here)
    known = [each.name for each in before] if done is None else [each for each in done.split(",") if each]
    then = dict.fromkeys([*known, name, here.name])
    for old in here.formerly:
        if all(each.name in then for each in kind.stages if old in each.formerly):
            then[old] = None
    earlier = here if _is_split(kind, name) else next((each for each in before if not _is_done(each, known)), None)
    after = next((each for each in kind.stages if not _is_done(each, then)), None)
    return Way(earlier, after, ",".join(then))

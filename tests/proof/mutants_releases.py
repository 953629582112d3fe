"""Planted bugs about deploys: each was how Holdfast behaved once, or would be the easy way to write it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from holdfast.core.failure import Category, failure
from holdfast.core.outcome import Failed
from holdfast.engines import worker
from holdfast.kernel import settle
from holdfast.kernel.declare import path
from holdfast.tables import jobs
from tests.proof.plant import Mutant, respelled, swapped

CLAIMS = ("THEN TRUE ELSE FALSE END", "THEN TRUE ELSE TRUE END")
CLAIMS_AT_ONCE = ("AS e) THEN TRUE ELSE FALSE END", "AS e) THEN TRUE ELSE TRUE END")
KEY = "kind || ' ' || stage || ' ' || version IN (\n                SELECT e.key FROM json_each(:declared) AS e)"
KEY_AT_ONCE = "kind || ' ' || stage || ' ' || version IN (\n            SELECT e.key FROM jsonb_each(:declared) AS e)"


@contextmanager
def stages_ignored_by_the_claim() -> Iterator[None]:
    """A worker claims whatever is due in its queue."""
    with respelled(jobs.sql, "claim", CLAIMS), respelled(jobs.sql, "turn", CLAIMS_AT_ONCE):
        yield


@contextmanager
def versions_ignored_by_the_claim() -> Iterator[None]:
    """A worker claims the stages that it declares, whatever the version of the input."""
    any_version = (
        "(kind || ' ' || stage) IN (SELECT e.value->>0 || ' ' || (e.value->>1) FROM json_each(:declared) AS e)"
    )
    at_once = any_version.replace("json_each", "jsonb_each")
    with respelled(jobs.sql, "claim", (KEY, any_version)), respelled(jobs.sql, "turn", (KEY_AT_ONCE, at_once)):
        yield


@contextmanager
def strangers_buried() -> Iterator[None]:
    """What this code does not declare is a failure for good, as soon as a worker meets it."""
    intact = worker.run_attempt

    async def bury(kernel: Any, taken: Any) -> Any:
        if kernel.registry.knows(taken.job.kind, taken.job.stage):
            return await intact(kernel, taken)
        return settle.Ending(taken.job, Failed(failure(Category.VALIDATION, "STAGE_UNKNOWN", "It is unknown here.")))

    with stages_ignored_by_the_claim(), swapped(worker, "run_attempt", bury):
        yield


@contextmanager
def done_stages_not_known() -> Iterator[None]:
    """Only the present stage says how far a job is."""
    nothing = ("payload, version, done,", "payload, version, NULL AS done,")
    with respelled(jobs.sql, "claim", nothing), respelled(jobs.sql, "turn", nothing):
        yield


def unremembered() -> AbstractContextManager[None]:
    """Where a job stands is found anew each time: what the code without the bug has found is remembered by its kind."""
    return swapped(path, "_way", lambda kind, job: path._find_way(kind, job.stage, job.done))


@contextmanager
def parts_of_a_split_forgotten() -> Iterator[None]:
    """A job at the name of what was split is done with all of it after the first part."""
    with unremembered(), swapped(path, "_is_split", lambda kind, name: False):
        yield


@contextmanager
def former_names_forgotten() -> Iterator[None]:
    """What was done under a former name is done again under the new."""
    with unremembered(), swapped(path, "_is_done", lambda stage, done: stage.name in done):
        yield


MUTANTS = (
    Mutant(stages_ignored_by_the_claim, ("S24",), 20),
    Mutant(versions_ignored_by_the_claim, ("S24",), 60),
    Mutant(strangers_buried, ("S24",), 20),
    Mutant(done_stages_not_known, ("S24",), 100),
    Mutant(parts_of_a_split_forgotten, ("S24",), 60),
    Mutant(former_names_forgotten, ("S24",), 60),
)

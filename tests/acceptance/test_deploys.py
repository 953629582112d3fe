"""Two releases of one app work side by side as real processes, and one of them is taken away: no job dies of it."""

from __future__ import annotations

import itertools
from collections import Counter
from types import ModuleType
from typing import Any

import pytest

from holdfast.kernel.kernel import Kernel
from holdfast.kernel.kinds import declared_key
from holdfast.kernel.questions.explain import explain
from holdfast.kernel.submit import submit
from tests.acceptance.apps import shop_v1, shop_v2
from tests.acceptance.apps.shop_work import HELD
from tests.acceptance.deployment import Deployment, all_ended, rows
from tests.acceptance.grading_site import PATIENCE_S
from tests.acceptance.process import Process, until

pytestmark = pytest.mark.slow

RELEASES = {"v1": shop_v1, "v2": shop_v2}
ONLY_IN = {
    "v1": {"shop.removed ask 1"},
    "v2": {
        "shop.added weigh 1",
        "shop.renamed invoice 1",
        "shop.split cut 1",
        "shop.versioned pay 2",
        "shop.new greet 1",
    },
}
"""Where the held jobs stand: what the other release does not declare."""
ROUNDS_MIN = 6
LIVE = "SELECT CAST(id AS TEXT) AS id, kind, stage, version, state FROM holdfast_jobs WHERE finished_at IS NULL"


def start(site: Deployment, release: str) -> Process:
    return site.worker(f"shop_{release}", HOLDFAST_GRACE_SEC="0.5", WORKER_CONCURRENCY="40")


async def submit_each(kernel: Kernel, release: ModuleType, name: str) -> None:
    for kind, value in release.inputs(name):
        await submit(kernel, kind, value)


async def standing(kernel: Kernel) -> dict[str, dict[str, Any]]:
    """The jobs that have not ended, by what a worker must declare to claim them."""
    return {declared_key(row["kind"], row["stage"], row["version"]): row for row in await rows(kernel, LIVE)}


@pytest.mark.spec("K22")
@pytest.mark.parametrize(("stays", "leaves"), [("v1", "v2"), ("v2", "v1")], ids=["rollback", "rollout"])
async def test_two_releases_run_together_and_one_is_taken_away(
    either_site: Deployment, stays: str, leaves: str
) -> None:
    site = either_site
    async with (
        site.kernel(lambda _: RELEASES[stays].make()) as kernel,
        site.kernel(lambda _: RELEASES[leaves].make()) as leaving,
    ):
        gone = start(site, leaves)
        await submit_each(leaving, RELEASES[leaves], HELD)
        await until_standing(kernel, ONLY_IN[leaves], gone)
        left = start(site, stays)
        await submit_until_both_have_worked(site, {stays: kernel, leaves: leaving}, left)
        assert await gone.end() == 0, gone.tail()
        await submit_each(kernel, RELEASES[stays], "afterwards")
        await submit_each(leaving, RELEASES[leaves], "by a web process of the release that left")
        await until_only_the_other_could_go_on(kernel, left)
        waiting = await standing(kernel)
        assert set(waiting) >= ONLY_IN[leaves] and {row["state"] for row in waiting.values()} == {"queued"}
        for row in waiting.values():
            assert (await explain(kernel, row["id"])).facts["code"] == "UNDECLARED"

        site.ledger.note("open")
        back = start(site, leaves)
        await until(lambda: all_ended(kernel), "every job to end", PATIENCE_S, process=back)
        for process in (left, back):
            assert await process.end() == 0, process.tail()
        await nothing_was_harmed(site, kernel)


async def until_standing(kernel: Kernel, where: set[str], process: Process) -> None:
    async def stand() -> bool:
        found = await standing(kernel)
        return set(found) == where and {row["state"] for row in found.values()} == {"processing"}

    await until(stand, f"the held jobs to stand at {where}", PATIENCE_S, process=process)


async def submit_until_both_have_worked(site: Deployment, kernels: dict[str, Kernel], process: Process) -> None:
    rounds = itertools.count(1)

    async def both() -> bool:
        number = next(rounds)
        for release, kernel in kernels.items():
            await submit_each(kernel, RELEASES[release], f"{number} by {release}")
        worked = {note.split()[0] for note in site.ledger.notes() if not note.endswith(HELD)}
        return number >= ROUNDS_MIN and worked == set(kernels)

    await until(both, "both releases to work", PATIENCE_S, process=process)


async def until_only_the_other_could_go_on(kernel: Kernel, process: Process) -> None:
    declared = {key for kind in kernel.registry.kinds.values() for key in kind.declares()}

    async def is_idle() -> bool:
        return not declared & set(await standing(kernel))

    await until(is_idle, "the release that is left to do all it can", PATIENCE_S, process=process)


async def nothing_was_harmed(site: Deployment, kernel: Kernel) -> None:
    """No job died, failed or crashed; no release ran a stage of a job twice, unless it was told to let go of it."""
    found = await rows(kernel, "SELECT DISTINCT state, failures, crashes FROM holdfast_jobs")
    assert found == [{"state": "succeeded", "failures": 0, "crashes": 0}]
    assert await rows(kernel, "SELECT id FROM holdfast_dead_letters") == []
    again = {note for note, times in Counter(site.ledger.notes()).items() if times > 1}
    assert all(note.endswith(HELD) for note in again), again
    assert not [
        name for name, parts in parts_of_split(site).items() if parts not in ({"v1 make"}, {"v2 cut", "v2 sew"})
    ]


def parts_of_split(site: Deployment) -> dict[str, set[str]]:
    """Which parts of the stage that was split have been run, by the name of the item."""
    found: dict[str, set[str]] = {}
    for note in site.ledger.notes():
        release, kind, stage, name = (*note.split(" ", 3), "", "", "")[:4]
        if kind == "shop.split" and stage != "sell":
            found.setdefault(name, set()).add(f"{release} {stage}")
    return found

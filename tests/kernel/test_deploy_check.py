"""What a deploy leaves behind: what the loaded code could not run, and what no running worker declares."""

from __future__ import annotations

import pytest

from holdfast.engines.worker import Worker
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.questions.deploy import Undeclared, stranded, undeclared
from holdfast.kernel.submit import submit
from holdfast.operator.depth import read_depths
from holdfast.testing import HandClock
from tests.kernel.places import Place, close_all
from tests.kernel.test_deploys import Code, Fleet, versioned


@pytest.mark.spec("K22")
async def test_a_deploy_is_compared_with_the_jobs_in_the_database(place: Place, clock: HandClock) -> None:
    old, new = Code("v1", "one", "gone", "two"), Code("v2", "one", "two")
    fleet = Fleet(place, clock)
    for number in range(3):
        await submit(fleet.kernel(old), old.job, str(number))
    assert await stranded(fleet.kernel(new)) == []
    await fleet.steps(old, 1)
    (group,) = await stranded(fleet.kernel(new))
    assert (group.kind, group.stage, group.version, group.jobs) == ("shop.order", "gone", 1, 1)
    assert "no stage 'gone'" in group.reason and await stranded(fleet.kernel(old)) == []
    await close_all(place)


@pytest.mark.spec("K22")
async def test_a_rollback_is_compared_by_the_version_of_the_input(place: Place, clock: HandClock) -> None:
    old, new = versioned(1), versioned(2)
    kernels = [place.kernel(app, clock=clock, seed=n) for n, (app, _, _) in enumerate((old, new))]
    await submit(kernels[0], old[1], {"a": 1})
    await submit(kernels[1], new[1], {"b": 1})
    assert [one.reason for one in await stranded(kernels[0])] == [
        "their input has version 2, and the loaded code knows up to 1"
    ]
    assert [one.reason for one in await stranded(kernels[1])] == [
        "'ver.bill' has no upgrade from version 1 of its input"
    ]
    await close_all(place)


@pytest.mark.spec("K22", "K17")
async def test_what_no_running_worker_declares_is_counted_by_kind_and_stage(place: Place, clock: HandClock) -> None:
    old, new = Code("v1", "one"), Code("v2", "check", "one")
    fleet = Fleet(place, clock)
    for priority in (0, 2):
        await submit(fleet.kernel(new), new.job, "x", priority=priority)
    kernel = fleet.kernel(old)
    assert await counted(kernel) == [], "without any worker nothing is declared: another alert says so"
    await Worker(kernel).renew()
    assert await counted(kernel) == [("shop.order", "check", 2)]
    await submit(kernel, old.job, "declared by both")
    assert await counted(kernel) == [("shop.order", "check", 2)]
    await Worker(fleet.kernel(new)).renew()
    assert await counted(kernel) == [], "as soon as a worker that declares it is there"
    await close_all(place)


@pytest.mark.spec("K22", "K17")
async def test_what_comes_due_where_no_running_worker_declares_it_is_counted(place: Place, clock: HandClock) -> None:
    old, new = Code("v1", "one"), Code("v2", "first")
    fleet = Fleet(place, clock)
    await submit(fleet.kernel(new), new.job, "x", delay_s=60)
    await Worker(fleet.kernel(old)).renew()
    assert await counted(fleet.kernel(old)) == []
    clock.advance(61)
    assert await counted(fleet.kernel(old)) == [("shop.order", "first", 1)]
    await close_all(place)


async def counted(kernel: Kernel) -> list[Undeclared]:
    async with kernel.store.reading() as tx:
        return await undeclared(kernel, tx, (await read_depths(kernel, tx)).due)

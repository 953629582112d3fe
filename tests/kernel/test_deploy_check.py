"""`holdfast check --deploy`: what the loaded code could not run of what is in the database."""

from __future__ import annotations

import pytest

from holdfast.kernel.deploy import stranded
from holdfast.kernel.submit import submit
from tests.kernel.places import HandClock, Place
from tests.kernel.test_deploys import Code, Fleet, close_all, versioned


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

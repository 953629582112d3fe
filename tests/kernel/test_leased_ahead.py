"""Leases that go ahead of the time: written seldom, and over when their worker's own time is."""

from __future__ import annotations

import pytest

from holdfast.kernel.reap import reap_once
from holdfast.tables import leases, workers
from tests.kernel.places import Deploy, take
from tests.kernel.test_lease import Work, app


@pytest.mark.spec("K3", "K21")
async def test_what_has_run_for_long_is_leased_ahead_and_comes_back_when_its_worker_is_gone(deploy: Deploy) -> None:
    """Its row is written seldom, it always holds for three leases, and it is taken back after one without a sign."""
    world = await deploy(app)
    job_id = await world.enqueue(Work, "x")
    (job,) = await take(world.kernel)
    lease_ms = int(world.kernel.tuning.lease_s * 1_000)
    written = set()

    async def renew(name: str = "w1") -> set[str]:
        async with world.kernel.store.transaction() as tx:
            now = world.clock.now_ms()
            await workers.seen(tx, name, "leases", 1, now, holds_until=now + lease_ms)
            return await leases.keep(tx, [job], now, lease_ms)

    for _ in range(200):
        world.clock.advance(20)
        assert await renew() == {job_id}
        left_ms = (row := await world.job(job_id))["lease_until"] - world.clock.now_ms()
        assert left_ms >= (3 * lease_ms if world.clock.now_ms() - job.last_attempt_at >= 8 * lease_ms else lease_ms)
        written.add(row["lease_until"])
    assert len(written) < 40, "24 of a job that is young, and a few more"
    assert await reap_once(world.kernel) == 0, "its worker signs"
    world.clock.advance(60)
    assert await reap_once(world.kernel) == 0, "the lease holds up to its last millisecond"
    world.clock.advance(0.001)
    assert await renew("another") == {job_id}, "whoever signs, it is not the worker that holds it"
    async with world.kernel.store.reading() as tx:
        now, until = world.clock.now_ms(), row["lease_until"]
        found = [
            len(await leases.deserted(tx, [queue], at, limit, beyond))
            for queue, at, limit, beyond in [
                ("leases", now, 9, until), ("leases", now, 9, until + 1), ("leases", now, 0, until),
                ("leases", now - 1, 9, until), ("other", now, 9, until),
            ]
        ]  # fmt: skip
    assert found == [1, 0, 0, 0, 0]
    assert await reap_once(world.kernel) == 1
    assert (await world.job(job_id))["crashes"] == 1 and await renew() == set()


@pytest.mark.spec("K3", "K21")
async def test_a_lease_that_is_long_by_itself_is_left_to_a_worker_that_never_signed(deploy: Deploy) -> None:
    """Another setting, or code that leases nothing ahead."""
    world = await deploy(app)
    await world.enqueue(Work, "x")
    (job,) = await take(world.kernel)
    async with world.kernel.store.transaction() as tx:
        await leases.renew(tx, {job.id: job.attempt}, world.clock.now_ms() + 3_600_000)
        await workers.seen(tx, "w1", "leases", 1, world.clock.now_ms())
    for wait_s in (1_000, 2_599):
        world.clock.advance(wait_s)
        assert await reap_once(world.kernel) == 0
    world.clock.advance(2)
    assert await reap_once(world.kernel) == 1

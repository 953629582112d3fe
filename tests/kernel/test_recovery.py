"""Each recovery of a provider begins with a trickle, however often it recovers."""

from __future__ import annotations

import pytest

from tests.kernel.places import Deploy, rows
from tests.kernel.test_hold import Ask, backlog, fresh, gate, health, opened

__all__ = ["fresh"]


@pytest.mark.spec("K9")
async def test_a_second_recovery_begins_with_a_trickle_again(deploy: Deploy) -> None:
    world, _ = await opened(deploy, count=60)
    for recovery in range(2):
        health["ok"] = False
        await backlog(world, Ask, 60)
        while await gate(world) == "closed":
            await world.tick()
            world.clock.advance(1)
        await world.tick()
        world.clock.advance(30)
        health.update(ok=True, calls=0)
        await world.tick()
        assert await gate(world) == "closed" and health["calls"] == 3
        pace = []
        while await rows(world.kernel.store, "SELECT 1 AS one FROM holdfast_jobs WHERE state = 'queued' LIMIT 1"):
            before = health["calls"]
            await world.tick()
            pace.append(health["calls"] - before)
            world.clock.advance(1)
        assert pace[:2] == [10, 20], f"recovery {recovery + 1} began with {pace[:2]}"

"""Who works here: the dead are not waited for, and not counted."""

from __future__ import annotations

import asyncio
import socket

import pytest

from holdfast import App
from holdfast.engines.presence import expire_the_dead, name_here
from holdfast.tables import workers
from tests.kernel.places import Deploy

app = App("presence")


@pytest.mark.spec("K3", "K17")
async def test_the_dead_of_this_machine_are_forgotten_at_a_start_and_nobody_else(deploy: Deploy) -> None:
    """With a job in hand or without; a process of another machine may live, whatever its number says."""
    world = await deploy(app)
    ended = await asyncio.create_subprocess_exec("true")
    await ended.wait()
    dead, alive, elsewhere = f"{socket.gethostname()}:{ended.pid}:a", name_here("b"), f"elsewhere.test:{ended.pid}:c"
    async with world.kernel.store.transaction() as tx:
        for name in (dead, alive, elsewhere):
            await workers.seen(tx, name, "presence", 0, world.clock.now_ms())
    assert await expire_the_dead(world.kernel) == 1
    async with world.kernel.store.transaction() as tx:
        assert sorted(await workers.known(tx)) == sorted([alive, elsewhere])

"""How many workers there are: those that take what somebody has submitted."""

from __future__ import annotations

import pytest
from tests.kernel.places import Deploy

from holdfast import App
from holdfast.operator.incident_news import APP
from holdfast.operator.snapshot import snapshot
from holdfast.tables import workers

app = App("counted")


@pytest.mark.spec("K17")
async def test_a_process_that_only_tells_of_incidents_is_no_worker(deploy: Deploy) -> None:
    world = await deploy(app)
    now = world.kernel.now()
    async with world.kernel.store.transaction() as tx:
        for name, queues in (("web", APP), ("both", f"{APP},counted"), ("one", "counted")):
            await workers.seen(tx, name, queues, 0, now)
    view = await snapshot(world.kernel)
    assert view.workers_alive == 2 and view.served_queues == {APP, "counted"}

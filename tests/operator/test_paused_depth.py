"""How many jobs a paused kind keeps."""

from __future__ import annotations

import pytest
from tests.kernel.places import Deploy

from holdfast import App, Context, Job, stage
from holdfast.kernel.turn import turn
from holdfast.operator.depth import read_depths
from holdfast.tables import pauses
from holdfast.tables.pauses import Pause

app = App("shop")


@app.job()
class Sell(Job[str]):
    @stage()
    async def charge(self, ctx: Context, text: str) -> None: ...


@pytest.mark.spec("K17")
async def test_what_a_paused_kind_keeps_is_counted_by_its_name(deploy: Deploy) -> None:
    world = await deploy(app)
    for number in range(2):
        await world.enqueue(Sell, f"{number}")
    async with world.kernel.store.transaction() as tx:
        for kind, is_paused in (("shop.sell", True), ("shop.other", True), ("shop.resumed", False)):
            await pauses.put(tx, Pause("kind", kind, is_paused, world.kernel.now(), "ann", "prices are wrong"))
    assert (await turn(world.kernel, "w", ["shop"], [], 5))[0] == []
    async with world.kernel.store.reading() as tx:
        found = await read_depths(world.kernel, tx)
    assert found.paused == {"shop.sell": 2, "shop.other": 0}

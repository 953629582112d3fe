"""One act on many jobs, page by page: nothing is skipped, nothing done in a dry run, and refusals hold up nobody."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kernel.places import Deploy

from holdfast import App, Context, Job, stage
from holdfast.errors import InvalidInput
from holdfast.operator.desk import Desk
from holdfast.operator.job_bulk import act_on_jobs, count_jobs
from holdfast.operator.page import ListPage
from holdfast.system import OpenSystem, System

pytestmark = pytest.mark.spec("K18")
app = App("shop")


@app.job()
class Sell(Job[dict[str, Any]]):
    @stage()
    async def charge(self, ctx: Context, order: dict[str, Any]) -> str:
        return "paid"


async def test_every_page_is_acted_on_although_what_was_done_fits_no_more(deploy: Deploy) -> None:
    world = await deploy(app)
    desk = Desk([OpenSystem(System("shop", "shop", "DATABASE_URL", lambda env: app), world.kernel, {})])
    done = await world.enqueue(Sell, {}, owner="ann")
    await world.run_until_idle()
    waiting = [await world.enqueue(Sell, {}, owner="ann", delay_s=600) for _ in range(5)]
    other = await world.enqueue(Sell, {}, owner="ben", delay_s=600)
    assert await count_jobs(desk, "owner:ann") == {"counts": {"queued": 5, "succeeded": 1}, "is_all": True}
    dry = await act_on_jobs(desk, "owner:ann", "cancel", actor="olga", page=ListPage(10), dry_run=True)
    assert (len(dry["done"]), [entry["id"] for entry in dry["refused"]]) == (5, [done])
    assert await world.state(waiting[0]) == "queued"
    cursor, acted = None, []
    for _ in range(5):
        page = await act_on_jobs(desk, "owner:ann state:queued", "cancel", actor="olga", page=ListPage(2, cursor))
        acted += [entry["id"] for entry in page["done"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert sorted(acted) == sorted(waiting)
    assert await world.state(other) == "queued"
    by_id = await act_on_jobs(desk, "", "cancel", actor="olga", page=ListPage(1), ids=frozenset({other, done}))
    assert [entry["id"] for entry in by_id["done"]] == [other]
    with pytest.raises(InvalidInput, match="Say which jobs"):
        await act_on_jobs(desk, " ", "cancel", actor="olga", page=ListPage(1))

"""One act on many jobs, page by page: nothing is skipped, nothing done in a dry run, and refusals hold up nobody."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kernel.places import Deploy

from holdfast import App, Context, Job, stage
from holdfast.errors import InvalidInput, NotFound
from holdfast.kernel.turn import turn
from holdfast.operator.desk import Desk
from holdfast.operator.ids import complete_id
from holdfast.operator.job_bulk import act_on_jobs, count_jobs
from holdfast.operator.jobs import set_priority
from holdfast.operator.page import ListPage
from holdfast.operator.story import show_job
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


async def test_jobs_are_brought_forward_run_now_and_deleted(deploy: Deploy) -> None:
    world = await deploy(app)
    desk = Desk([OpenSystem(System("shop", "shop", "DATABASE_URL", lambda env: app), world.kernel, {})])
    done = await world.enqueue(Sell, {}, owner="cay")
    await world.run_until_idle()
    later = [await world.enqueue(Sell, {}, owner="cay", delay_s=600) for _ in range(3)]

    async def act(action: Any, **more: Any) -> tuple[int, int]:
        answer = await act_on_jobs(desk, "owner:cay", action, actor="olga", page=ListPage(10), **more)
        return len(answer["done"]), len(answer["refused"])

    assert await act("priority", priority=0, dry_run=True) == (3, 1)
    assert await act("priority", priority=0) == (3, 1)
    assert {(await show_job(desk, job_id))["priority"] for job_id in later} == {0}
    with pytest.raises(InvalidInput, match="Say which priority"):
        await act("priority")
    assert (await turn(world.kernel, "w", ["shop"], [], 5))[0] == [], "urgent, and not due"
    assert await act("delete", dry_run=True) == (1, 3)
    assert await act("run_now") == (3, 1)
    assert await act("run_now") == (0, 4), "due already"
    await world.run_until_idle()
    assert [await world.state(job) for job in later] == ["succeeded"] * 3
    assert await act("delete") == (4, 0)
    assert (await count_jobs(desk, "owner:cay"))["counts"] == {}
    with pytest.raises(NotFound):
        await show_job(desk, done)


async def test_an_urgent_job_goes_before_what_came_first(deploy: Deploy) -> None:
    world = await deploy(app)
    desk = Desk([OpenSystem(System("shop", "shop", "DATABASE_URL", lambda env: app), world.kernel, {})])
    jobs = [await world.enqueue(Sell, {}) for _ in range(3)]
    await turn(world.kernel, "w", ["shop"], [], 0)
    await set_priority(desk, jobs[2], priority=0, actor="olga")
    (taken,), _ = await turn(world.kernel, "w", ["shop"], [], 1)
    assert taken.job.id == jobs[2] and taken.job.priority == 0


async def test_the_beginning_of_an_id_is_enough_at_every_door(deploy: Deploy) -> None:
    world = await deploy(app)
    desk = Desk([OpenSystem(System("shop", "shop", "DATABASE_URL", lambda env: app), world.kernel, {})])
    job = await world.enqueue(Sell, {})
    assert await complete_id(desk, "job", job[:23]) == job == await complete_id(desk, "job", job.upper())
    with pytest.raises(NotFound, match="whose id begins with 00000000"):
        await complete_id(desk, "job", "00000000")
    with pytest.raises(NotFound, match="There is no job nope"):
        await complete_id(desk, "job", "nope")

"""Hands on what runs, in a real browser: pauses, drains, schedules, priorities, views, and charts that can be read."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.browser.deployment import Deployment
from tests.browser.pages import BROKEN_WORDS, go, picture, says, signed_in

from holdfast.operator.desk import Desk
from holdfast.operator.rollup import roll_up_once
from holdfast.operator.schedules import add_schedule
from holdfast.tables import rollups
from holdfast.tables.rollups import MINUTE_MS, Cell

OWNED = {"submitted": 1_234, "succeeded": 1_000, "retried": 3, "buried": 2}


async def test_a_kind_is_paused_with_a_reason_and_its_jobs_say_so(browser: Any, place: Deployment) -> None:
    async with signed_in(browser, place, to="/console") as page:
        await go(page, "machines", "Workers and cost")
        await page.get_by_role("button", name="Pause shop.order").click()
        dialog = page.get_by_role("dialog", name="Pause the kind shop.order?")
        await dialog.get_by_label("Why?").fill("prices are wrong")
        await dialog.get_by_role("button", name="Pause it").click()
        await says(page, "It is paused.")
        await page.get_by_text("prices are wrong").wait_for()
        await picture(page, "pauses", whole=False)
        job = await place.order("lamp")
        await go(page, f"job/{job[:23]}", "shop.order")
        await page.get_by_text("has paused the kind 'shop.order'").wait_for()
        await go(page, "overview", "Overview")
        await page.get_by_text("The kind 'shop.order' has been paused by").wait_for()
        await go(page, "machines", "Workers and cost")
        await page.get_by_role("button", name="Resume shop.order").click()
        await says(page, "It goes on.")
        await place.reaches(job, "succeeded")


async def test_a_worker_is_drained_and_takes_jobs_again(browser: Any, place: Deployment) -> None:
    async with signed_in(browser, place, to="/console") as page:
        await go(page, "machines", "Workers and cost")
        row = page.get_by_role("row").filter(has_text="shop").filter(has=page.get_by_role("button", name="Drain "))
        await row.first.get_by_role("button", name="Drain").click()
        await page.get_by_role("dialog").get_by_role("button", name="Drain it").click()
        await says(page, "It takes nothing more.")
        await page.get_by_text("drained", exact=True).first.wait_for()
        job = await place.order("rug")
        await page.get_by_role("button", name="Take jobs again").first.click()
        await says(page, "It takes jobs again.")
        await place.reaches(job, "succeeded")


async def test_a_job_is_brought_forward_run_and_deleted(browser: Any, place: Deployment) -> None:
    job = await place.order("cup", delay_s=3_600)
    async with signed_in(browser, place, to="/console") as page:
        await go(page, f"job/{job}", "shop.order")
        await page.get_by_role("button", name="Priority").click()
        await page.get_by_label("Priority", exact=True).select_option("0")
        await page.get_by_role("button", name="Set it").click()
        await says(page, "The job has another priority.")
        assert (await place.ask("GET", f"/api/ops/jobs/{job}"))["priority"] == 0
        await page.get_by_role("button", name="Run now").click()
        await says(page, "The job is due.")
        await place.reaches(job, "succeeded")
        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete the job").click()
        await page.get_by_role("heading", name="Jobs").wait_for()
    with pytest.raises(AssertionError, match="404"):
        await place.ask("GET", f"/api/ops/jobs/{job}")


async def test_a_view_is_saved_in_the_browser_and_comes_back(browser: Any, place: Deployment) -> None:
    async with signed_in(browser, place, to="/console") as page:
        await go(page, "jobs?q=owner:nobody", "Jobs that fit owner:nobody")  # one that fits would open by itself
        await page.get_by_role("button", name="Save this view").click()
        await page.get_by_label("Its name").fill("Ann")
        await page.get_by_role("dialog").get_by_role("button", name="Save", exact=True).click()
        await says(page, "Saved as Ann.")
        await go(page, "jobs", "Jobs")
        await page.reload()
        await page.get_by_role("link", name="Ann", exact=True).click()
        await page.get_by_role("heading", name="Jobs that fit owner:nobody").wait_for()
        await page.get_by_role("button", name="Forget the view Ann").click()
        await page.get_by_role("link", name="Ann", exact=True).wait_for(state="detached")


@pytest.mark.spec("K17")
async def test_a_query_is_suggested_word_by_word_and_narrowed_by_state(browser: Any, place: Deployment) -> None:
    for item in ("kite", "drum"):
        await place.order(item, owner="zoe", delay_s=3_600)
    await place.reaches(await place.order("ball", owner="zoe"), "succeeded")
    offered = "(wanted) => [...document.querySelectorAll('#words option')].some((option) => option.value === wanted)"
    async with signed_in(browser, place, to="/console") as page:
        await go(page, "jobs", "Jobs")
        query = page.get_by_label("Query", exact=True)
        await query.press_sequentially("owner:zoe pro")
        await page.wait_for_function(offered, arg="owner:zoe provider:")
        await query.press_sequentially("vider:ba")
        await page.wait_for_function(offered, arg="owner:zoe provider:bank")
        await query.fill("owner:zoe")
        await query.press("Enter")
        states = page.get_by_role("navigation", name="States")
        await states.get_by_role("link", name="succeeded 1").wait_for()
        await states.get_by_role("link", name="queued 2").click()
        await page.get_by_role("heading", name="Jobs that fit state:queued owner:zoe").wait_for()
        assert await page.locator("tbody tr").count() == 2
        newest = await page.locator("tbody a").all_inner_texts()
        await page.get_by_role("link", name="Created").click()
        await page.get_by_role("heading", name="Jobs that fit state:queued owner:zoe sort:oldest").wait_for()
        await page.locator("th[aria-sort=ascending]", has_text="Created").wait_for()
        assert await page.locator("tbody a").all_inner_texts() == newest[::-1]
        await page.get_by_role("link", name="Created").click()
        await page.locator("th[aria-sort=descending]", has_text="Created").wait_for()
        assert "sort" not in page.url, "the order that one has without asking is not asked for"
        await query.fill("owner:zoe stat:queued")
        await query.press("Enter")
        await page.get_by_role("alert").filter(has_text="stat").wait_for()
        assert await query.input_value() == "owner:zoe stat:queued", "a query that cannot be read is there to be mended"
        await query.fill("owner:nobody")
        await query.press("Enter")
        await says(page, "No job here fits this.")
        assert await page.get_by_role("group", name="Acts on many").count() == 0, "there is nothing to act on"


@pytest.mark.spec("K17")
async def test_an_owner_has_a_chart_and_a_way_to_the_jobs(browser: Any, place: Deployment) -> None:
    minute = place.kernel().now() // MINUTE_MS * MINUTE_MS
    async with place.kernel().store.transaction() as tx:
        cells = [Cell(minute, "owner", "zelda", "", name, 200, number, 0) for name, number in OWNED.items()]
        cells.append(Cell(minute, "spent", "zelda", "", "", 0, 9, 2_500_000))
        await rollups.add(tx, cells)
    async with signed_in(browser, place, to="/console") as page:
        await go(page, "time?owner=zelda&system=shop", "Time")
        row = page.get_by_role("row").filter(has_text="zelda")
        assert await row.locator("td").all_inner_texts() == [
            "zelda",
            "1,234",
            "1,000",
            "5",
            "2",
            "200 ms",
            "200 ms",
            "9",
            "2.5000",
            "Jobs",
        ]
        assert await page.locator("figure").count() == 3, "what is not counted by owner is not drawn"
        await page.locator("figcaption", has_text="Jobs of zelda").get_by_text("1,234 jobs submitted").wait_for()
        await row.get_by_role("link", name="Jobs").click()
        await page.get_by_role("heading", name='Jobs that fit owner:"zelda"').wait_for()


@pytest.mark.spec("K17")
async def test_a_chart_has_axes_reads_its_points_and_zooms(browser: Any, place: Deployment) -> None:
    await place.reaches(await place.order("bowl"), "succeeded")
    await roll_up_once(place.kernel())
    async with signed_in(browser, place, to="/console") as page:
        await go(page, "time?minutes=15", "Time")
        chart = page.locator("section.card", has=page.get_by_role("heading", name="shop")).locator("figure").first
        plot = chart.locator("svg")
        assert await plot.locator("text").count() >= 5, "both axes have words"
        box = await plot.bounding_box()
        await plot.hover(position={"x": box["width"] * 0.5, "y": box["height"] * 0.5})
        assert "done" in await chart.locator("strong").inner_text()
        await page.evaluate("document.querySelector('#view').dataset.old = '1'; dispatchEvent(new Event('hashchange'))")
        await page.locator("#view[data-old]").wait_for(state="detached")
        assert "done" in await chart.locator("strong").inner_text(), "a refresh leaves what is being read"
        await picture(page, "time", whole=False)
        box = await plot.bounding_box()
        await page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 40)
        await page.mouse.down()
        await page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 40)
        await page.mouse.up()
        await page.get_by_role("navigation", name="Range").locator("strong").wait_for(state="detached")
        assert "until=" in page.url
        await go(page, "time?minutes=60", "Time")
        await plot.click(position={"x": box["width"] * 0.5, "y": box["height"] * 0.5})
        await page.get_by_role("heading", name="Time", exact=True).wait_for(state="detached")
        assert re.search(r"#job/|#jobs\?q=since%3A[^&]+Z\+until%3A[^&]+Z&system=shop", page.url), (
            "the jobs of that minute"
        )


VIEWS = ("overview", "incidents", "time", "jobs", "dead", "breakers", "outbox", "machines", "audit", "submissions")


async def test_a_viewer_sees_everything_and_no_button_that_is_refused(browser: Any, place: Deployment) -> None:
    job, letter = await place.dies("harp")
    waiting = await place.order("flute", delay_s=3_600)
    group = (await place.ask("GET", f"/api/ops/dead-letters/{letter}"))["fingerprint"]
    views = (*VIEWS, f"job/{job}", f"job/{waiting}", f"letter/{letter}", f"group/shop/{group}")
    sent: list[str] = []
    async with signed_in(browser, place, to="/console", roles=["viewer"]) as page:
        page.on("request", lambda request: sent.append(request.url) if request.method != "GET" else None)
        for view in views:
            await go(page, view, "")
            assert await page.evaluate(BROKEN_WORDS) == [], view
            for button in await page.locator("#view button:visible").all():
                if await button.is_visible() and await button.is_enabled():
                    await button.click()
                    await confirm(page)
            assert await page.locator("#view form:visible:not([role=search])").count() == 0, view
    assert {urlsplit(url).path for url in sent} <= {"/api/tickets"}
    async with signed_in(browser, place, to=f"/console#job/{waiting}") as page:
        await page.get_by_role("button", name="Cancel").wait_for()


async def confirm(page: Any) -> None:
    """Whatever a dialog asks for is given."""
    dialog = page.locator("dialog[open]")
    if await dialog.count():
        for field in await dialog.locator("input, textarea").all():
            await field.fill("x")
        await dialog.locator("button").first.click()


async def test_a_schedule_is_paused_run_now_and_shows_its_history(browser: Any, place: Deployment) -> None:
    desk = Desk([each for each in place.opened if each.name == "shop"])
    await add_schedule(desk, "yearly", "0 3 1 1 *", "shop.order", '{"item": "calendar"}', actor="olga")
    async with signed_in(browser, place, to="/console") as page:
        await go(page, "machines", "Workers and cost")
        row = page.get_by_role("row").filter(has_text="yearly")
        await row.get_by_role("button", name="Pause").click()
        await says(page, "It enqueues nothing more.")
        await row.get_by_role("button", name="Resume").wait_for()
        await row.get_by_role("button", name="Run now").click()
        await page.get_by_role("dialog").get_by_role("button", name="Run it").click()
        await page.get_by_text("is enqueued.").wait_for()
        await row.get_by_role("button", name="Resume").click()
        await says(page, "It goes on with its next tick.")
        await row.get_by_role("button", name="Pause").wait_for()
        await page.get_by_role("link", name="yearly").click()
        await page.locator("tbody tr", has_text="succeeded").get_by_role("link").first.click()
        await page.get_by_role("heading", name="shop.order").wait_for()
        await page.get_by_text("charging for calendar").first.wait_for()  # what its attempt has logged

"""The first screen: what is at rest takes a line, what is hit is a click away, and all clocks are the reader's."""

from __future__ import annotations

from typing import Any

import pytest
from tests.browser.deployment import Deployment
from tests.browser.pages import go, signed_in

from holdfast.kernel.hold import force
from holdfast.operator.incident_watch import watch_incidents

pytestmark = pytest.mark.spec("K17")
COLUMNS = "(table) => [...table.querySelectorAll('thead th')].map((head) => head.textContent)"


async def test_an_incident_tells_the_time_of_its_reader_and_leads_to_its_jobs(browser: Any, place: Deployment) -> None:
    kernel = place.kernel()
    await force(kernel, "bank", open=True, actor="olga", reason="the bank answers 503")
    held = [await place.order("sail", owner=owner) for owner in ("ann", "ben")]
    await watch_incidents(kernel)
    async with signed_in(browser, place, to="/console", timezone_id="Asia/Kolkata") as page:
        card = page.locator("section.incident", has=page.get_by_role("link", name="Provider down: bank"))
        sentence = card.locator("p", has_text="has been down since")
        said = sentence.locator("time").first
        told = (await said.get_attribute("title")).removesuffix(" UTC")
        hours, minutes = map(int, told.split(":"))
        shown = (hours * 60 + minutes + 330) % 1_440  # five and a half hours east of Greenwich
        assert await said.inner_text() == f"{shown // 60:02}:{shown % 60:02}"
        assert "UTC" not in await sentence.inner_text()
        await card.get_by_role("link", name="2 jobs of 2 customers").click()
        for job in held:
            await page.get_by_role("link", name=job).wait_for()
        await page.go_back()
        await card.get_by_role("link", name="Its breaker").click()
        await page.get_by_role("heading", name="Breaker of bank").wait_for()


async def test_a_system_at_rest_is_a_line_and_a_busy_one_a_card(browser: Any, place: Deployment) -> None:
    await place.reaches(await place.order("keel"), "succeeded")
    async with signed_in(browser, place, to="/console") as page:
        rest = page.locator("section.card", has=page.get_by_role("heading", name="At rest"))
        line = rest.locator("li", has_text="Review: changelists and their reviewers")
        await line.get_by_text("well").wait_for()
        assert await line.locator("figure").count() == 0
        await page.get_by_role("heading", name="shop", exact=True).wait_for()
        await line.get_by_role("link", name="The last 7 days").click()
        await page.wait_for_url("**/console#time?minutes=10080&system=review")


async def test_a_column_that_no_row_fills_is_left_out(browser: Any, place: Deployment) -> None:
    well = await place.order("oar")
    await place.reaches(well, "succeeded")
    ill, _ = await place.dies("oar")
    async with signed_in(browser, place, to="/console") as page:
        calls = page.locator("section", has=page.get_by_role("heading", name="Provider calls")).locator("table")
        await go(page, f"job/{well}", "shop.order")
        assert await calls.evaluate(COLUMNS) == ["Provider", "Stage", "Attempt", "Outcome", "Took", "Cost"]
        await go(page, f"job/{ill}", "shop.order")
        heads = await calls.evaluate(COLUMNS)
        assert {"Status", "Error"} <= set(heads) and "Units" not in heads

"""Incidents in the console: the first screen says it all, and a person works one to its end."""

from __future__ import annotations

from typing import Any

import pytest
from tests.browser.deployment import Deployment
from tests.browser.pages import go, picture, says, signed_in

from holdfast.kernel.hold import force
from holdfast.operator.incident_watch import watch_incidents

LAPTOP = {"width": 1280, "height": 720}


@pytest.mark.spec("K9", "K17")
async def test_the_first_screen_answers_and_an_incident_is_worked_to_its_end(browser: Any, place: Deployment) -> None:
    kernel = place.kernel()
    await force(kernel, "bank", open=True, actor="olga", reason="the bank answers 503")
    jobs = [await place.order("rope", owner=owner) for owner in ("ann", "ben", "ann")]
    for job in jobs:
        await place.reaches(job, "queued")
    await watch_incidents(kernel)
    async with signed_in(browser, place, to="/console", viewport=LAPTOP) as page:
        card = page.locator("section.incident")
        await card.get_by_text("the bank answers 503").wait_for()
        words = await card.inner_text()
        for part in ("Provider down: bank", "3 jobs of 2 customers", "Since", "What to do", "a person must close it"):
            assert part in words, part
        box = await card.bounding_box()
        assert box["y"] + box["height"] <= LAPTOP["height"], "all of it is on the first screen"
        await picture(page, "incident-overview", whole=False)
        await card.get_by_role("button", name="Acknowledge").click()
        await card.get_by_text("assigned to olga").wait_for()
        await card.get_by_role("button", name="Comment").click()
        await page.get_by_role("dialog").get_by_label("Comment").fill("<b>their status page</b> says 16:00")
        await page.get_by_role("dialog").get_by_role("button", name="Add").click()
        await says(page, "Added to the timeline.")
        await force(kernel, "bank", open=False, actor="olga", reason="it answers again")
        for job in jobs:
            await place.reaches(job, "succeeded")
        await watch_incidents(kernel)
        await go(page, "incidents", "Incidents")
        await page.get_by_role("link", name="Provider down: bank").click()
        await says(page, "<b>their status page</b> says 16:00")
        await says(page, "3 jobs of 2 customers waited")
        await page.get_by_role("button", name="Close", exact=True).click()
        await page.get_by_role("dialog").get_by_label("What was it").fill("the bank's database")
        await page.get_by_role("button", name="Close it").click()
        await says(page, "the bank's database")
        await picture(page, "incident")
        await page.get_by_role("button", name="Post-mortem as Markdown").click()
        await page.get_by_role("dialog").get_by_text("# provider down: bank").wait_for()

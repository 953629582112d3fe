"""The palette, the skip link and the outline of the page: what a keyboard and a screen reader go by."""

from __future__ import annotations

from typing import Any

import pytest
from tests.browser.deployment import Deployment
from tests.browser.pages import CONTRAST, go, picture, signed_in

SIZE_MAX = 200_000


@pytest.mark.spec("K17")
async def test_the_palette_goes_anywhere_by_keys_alone(browser: Any, place: Deployment) -> None:
    job = await place.order("palette")
    async with signed_in(browser, place, to="/console") as page:
        await page.get_by_role("heading", name="Overview").wait_for()
        await page.keyboard.press("Control+k")
        box = page.get_by_role("dialog", name="Palette")
        await box.get_by_role("option", name="Breakers").wait_for()
        assert await page.evaluate(CONTRAST) == []
        await page.keyboard.type("dead l")
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name="Dead letters", level=2).wait_for()
        await page.keyboard.press("Control+k")
        await page.keyboard.type("jobs")
        await page.keyboard.press("ArrowDown")
        await picture(page, "palette", whole=False)
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/console#jobs?q=state*held")
        await page.keyboard.press("Control+k")
        await page.keyboard.type(job)
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"**/console#job/{job}")


async def test_the_page_has_one_first_heading_a_skip_link_and_is_light(browser: Any, place: Deployment) -> None:
    async with signed_in(browser, place, to="/console") as page:
        await go(page, "jobs", "Jobs")
        assert await page.locator("h1").count() == 1
        assert (
            await page.locator("thead th", has_text="").evaluate_all("all => all.filter(e => !e.textContent).length")
            == 0
        )
        await page.evaluate("document.activeElement.blur()")
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.id") == "skip"
        await page.keyboard.press("Enter")
        assert await page.evaluate("document.activeElement.id") == "view"
        assert "#jobs" in page.url, "the view stays"
        script = "performance.getEntriesByType('resource').filter((e) => e.name.includes('/static/'))"
        size = await page.evaluate(f"{script}.reduce((sum, e) => sum + e.decodedBodySize, 0)")
        assert 0 < size <= SIZE_MAX, f"the console's files have {size} bytes"

"""Nothing that somebody typed is lost, whatever happens to the network, the server, the page or the session."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.browser.deployment import Deployment
from tests.browser.pages import go, says, signed_in

WORDS = "INC-7: the card reader was <b>replaced</b>"


@pytest.mark.spec("K17")
async def test_a_refresh_that_fails_keeps_the_view_and_says_so_in_a_corner(browser: Any, place: Deployment) -> None:
    _, letter = await place.dies("corner")
    async with signed_in(browser, place, to=f"/console#letter/{letter}") as page:
        await page.get_by_label("What you found").fill(WORDS)
        await page.route("**/api/**", lambda route: route.abort())
        await page.locator("#stale", has_text="The server cannot be reached.").wait_for()
        corner = await page.locator("#stale").inner_text()
        assert re.match(r"As of \d", corner), "it says how old the view is"
        assert await page.get_by_role("heading", name="CARD_REFUSED in charge").is_visible()
        await page.get_by_role("button", name="Triage").click()
        await page.get_by_role("alert").filter(has_text="The server cannot be reached.").wait_for()
        assert await page.get_by_label("What you found").input_value() == WORDS
        await page.unroute("**/api/**")
        await page.locator("#stale").wait_for(state="hidden")
        await page.get_by_role("button", name="Triage").click()
        await page.locator("li.now", has_text="Remediate").wait_for()
    case = await place.ask("GET", f"/api/ops/dead-letters/{letter}")
    assert case["notes"] == WORDS


@pytest.mark.spec("K17")
async def test_a_draft_and_the_view_survive_a_reload_and_a_new_sign_in(browser: Any, place: Deployment) -> None:
    _, letter = await place.dies("draft")
    async with signed_in(browser, place, to=f"/console#letter/{letter}") as page:
        await page.get_by_label("What you found").fill(WORDS)
        await page.get_by_role("button", name="Close without a replay").click()
        await page.get_by_role("dialog").get_by_label("Why").fill("half a reas")
        await page.reload()
        await says(page, "What you had typed here is back.")
        assert await page.get_by_label("What you found").input_value() == WORDS
        await page.evaluate("sessionStorage.setItem('holdfast.token', 'gone')")
        await page.context.clear_cookies()
        await page.locator("#stale").get_by_role("link", name="Sign in again").click()
        await page.get_by_label("Token").fill(place.token("olga"))
        await page.get_by_role("button", name="Sign in").click()
        await page.wait_for_url(f"{place.address}/console#letter/{letter}")
        await says(page, "What you had typed here is back.")
        assert await page.get_by_label("What you found").input_value() == WORDS
        await page.get_by_role("button", name="Close without a replay").click()
        why = page.get_by_role("dialog").get_by_label("Why")
        assert await why.input_value() == "half a reas"
        await why.fill("a reason")
        await page.get_by_role("button", name="Close it").click()
        await says(page, "Closed.")
        assert "reason" not in await page.evaluate("sessionStorage.getItem('holdfast.drafts')"), "what was sent is over"


async def test_nobody_sees_the_drafts_of_another_and_a_deep_link_leads_through_the_sign_in(
    browser: Any, place: Deployment
) -> None:
    _, letter = await place.dies("two people")
    async with signed_in(browser, place, to=f"/console#letter/{letter}") as page:
        await page.get_by_label("What you found").fill(WORDS)
        await page.context.clear_cookies()
        await page.evaluate("sessionStorage.removeItem('holdfast.token')")
        await page.goto(f"{place.address}/")
        await page.goto(f"{place.address}/console#letter/{letter}")
        await page.get_by_label("Token").fill(place.token("berta"))
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("heading", name="CARD_REFUSED in charge").wait_for()
        assert await page.get_by_label("What you found").input_value() == ""
        await page.get_by_label("What you found").fill("mine")
        await page.get_by_role("button", name="Sign out").click()
        await page.wait_for_url(f"{place.address}/login")
        assert await page.evaluate("sessionStorage.getItem('holdfast.drafts')") is None
        await page.goto(f"{place.address}/login#{place.token()}")
        await page.wait_for_url(f"{place.address}/")
        await page.goto(f"{place.address}/console")
        await go(page, "dead", "Dead letters")

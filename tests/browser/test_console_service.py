"""The grading service in the main app's console, where each is a server of its own with a database of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.browser.pages import CONTRAST, HOSTILE, says, signed_in
from tests.systems.grading.pair import made_engine, opened
from tests.systems.grading.test_grading_service import request, send
from tests.systems.grading.test_service_console import AWAY, one_dead
from tests.systems.grading.two_servers import two_servers


@pytest.mark.spec("000.41")
async def test_an_operator_sees_and_works_on_the_service_and_is_told_when_it_is_away(
    browser: Any, tmp_path: Path
) -> None:
    async with opened(tmp_path, made_engine(tmp_path)) as pair, two_servers(pair, tmp_path) as (main, service):
        await one_dead(pair)
        await send(pair, request(pair, submissionId=HOSTILE))
        await pair.settle()
        async with signed_in(browser, main, to="/console#submissions") as page:
            await page.get_by_role("link", name="Grading service").click()
            letter = page.locator("tbody tr", has_text="ASSERTION").first
            await letter.get_by_role("button", name="Triage").click()
            await page.get_by_role("dialog").get_by_label("Cause").select_option("code")
            await page.get_by_role("dialog").get_by_role("button", name="Triage").click()
            await says(page, "Done: triage.")
            await letter.get_by_role("button", name="Remediate").wait_for()
            await letter.get_by_role("button", name="Correct").click()
            form = page.get_by_role("dialog")
            words = await form.get_by_label("The input").input_value()
            await form.get_by_label("The input").fill(words.replace('"duration_seconds": 16', '"duration_seconds": 17'))
            await form.get_by_role("button", name="Show the difference").click()
            await page.get_by_role("dialog").get_by_text("payload.duration_seconds").wait_for()
            await page.get_by_role("dialog").get_by_role("button", name="Correct it").click()
            await says(page, "The input is corrected.")
            await letter.get_by_role("button", name="Replay").wait_for()
            breaker = page.locator("tbody tr", has_text="llm").first
            await breaker.get_by_role("button", name="Open").click()
            await page.get_by_role("dialog").get_by_label("Why").fill("maintenance")
            await page.get_by_role("dialog").get_by_role("button", name="Open it").click()
            await breaker.get_by_role("button", name="Close").wait_for()
            assert await page.evaluate(CONTRAST) == []
            await page.set_viewport_size({"width": 400, "height": 900})
            assert await page.evaluate("document.documentElement.scrollWidth") == 400, "it is too wide"
            await letter.get_by_role("link", name="its story").click()
            await page.get_by_role("heading", name="Job of the grading service").wait_for()
            await service.stack.aclose()
            await page.evaluate("() => { location.hash = 'service'; }")
            await says(page, AWAY)

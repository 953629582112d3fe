"""Fix and replay in one dialog, and in one click."""

from __future__ import annotations

from typing import Any

import pytest
from tests.browser.deployment import Deployment
from tests.browser.pages import go, picture, says, signed_in


@pytest.mark.spec("K8")
async def test_the_input_is_a_form_with_a_difference_and_the_replay_is_watched(browser: Any, place: Deployment) -> None:
    job_id, letter = await place.dies("cracked bell")
    async with signed_in(browser, place, to=f"/console#letter/{letter}") as page:
        await page.get_by_role("button", name="Fix and replay").click()
        dialog = page.get_by_role("dialog", name="Fix and replay")
        await dialog.get_by_text("The card was refused.").wait_for()
        await dialog.get_by_text("It begins at charge.").wait_for()
        await dialog.get_by_label("pieces").fill("1.5")
        await dialog.get_by_role("alert").filter(has_text="pieces").wait_for()
        assert await dialog.get_by_role("button", name="Replay").is_disabled()
        await dialog.get_by_label("pieces").fill("2")
        await dialog.get_by_label("is_gift").check()
        await dialog.get_by_label("item").fill("whole bell")
        await dialog.locator("ins", has_text="whole bell").wait_for()
        await dialog.locator("ins", has_text="true").wait_for()
        await page.route("**/mend", lambda route: route.abort())
        await dialog.get_by_label("item").fill("bell")
        await dialog.get_by_role("alert").filter(has_text="The server cannot be reached.").wait_for()
        await page.unroute("**/mend")
        await dialog.get_by_text("It begins at charge.").wait_for()
        await dialog.get_by_label("item").fill("whole bell")
        await dialog.locator("ins", has_text="whole bell").wait_for()
        await picture(page, "mend", whole=False)
        await dialog.get_by_role("button", name="Leave it").click()
        await page.get_by_role("button", name="Fix and replay").click()
        assert await dialog.get_by_label("item").input_value() == "whole bell", "what was typed is not lost"
        await dialog.get_by_label("What was fixed").fill("the bell was recast")
        await dialog.locator("ins", has_text="whole bell").wait_for()
        await dialog.get_by_role("button", name="Replay").click()
        await says(page, "Replayed from charge.")
        await page.wait_for_url(f"**/console#job/{job_id}")
        await page.get_by_text("there is nothing left to run").wait_for()
    job = await place.ask("GET", f"/api/ops/jobs/{job_id}")
    assert job["payload"] == {"item": "whole bell", "parcel": "", "pieces": 2, "is_gift": True}


@pytest.mark.spec("K8")
async def test_a_job_is_replayed_as_it_is_by_one_click_and_leaves_evidence(browser: Any, place: Deployment) -> None:
    job_id, letter = await place.dies("loose bell")
    del place.mood.broken["loose bell"]
    async with signed_in(browser, place, to=f"/console#job/{job_id}") as page:
        await page.get_by_role("button", name="Replay as it is").click()
        await page.get_by_text("there is nothing left to run").wait_for()
        await go(page, f"letter/{letter}", "CARD_REFUSED in charge")
        await says(page, "Replayed as it is.")
        await page.locator("li.now", has_text="Verify and close").wait_for()

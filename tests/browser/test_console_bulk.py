"""Acts on many jobs: counted first, then done with a bar, for chosen ones and for all that fit a query."""

from __future__ import annotations

from typing import Any

import pytest
from tests.browser.deployment import Deployment
from tests.browser.pages import go, picture, says, signed_in


@pytest.mark.spec("K18")
async def test_all_that_fit_are_replayed_and_chosen_ones_cancelled(browser: Any, place: Deployment) -> None:
    dead = [(await place.dies(f"vase {number}", owner="mass"))[0] for number in range(4)]
    done = await place.order("glass", owner="mass")
    await place.reaches(done, "succeeded")
    later = [await place.order("cup", owner="later", delay_s=3_600) for _ in range(2)]
    place.mood.broken.clear()
    async with signed_in(browser, place, to="/console") as page:
        await go(page, "jobs?q=owner:mass", "Jobs that fit owner:mass")
        await page.get_by_text("1 succeeded, 4 dead").wait_for()
        await page.get_by_role("button", name="Replay all that fit").click()
        dialog = page.get_by_role("dialog", name="Replay 4 jobs?")
        await dialog.get_by_text("4 would be replayed; 1 would be left alone: It is succeeded").wait_for()
        await dialog.get_by_label("What was fixed").fill("the vases were glued")
        await picture(page, "bulk", whole=False)
        await dialog.get_by_role("button", name="Replay").click()
        await says(page, "4 jobs replayed, 1 left alone")
        for job in dead:
            await place.reaches(job, "succeeded")
        await go(page, "audit?actor=olga", "Audit")
        burst = page.locator("tr", has_text="case.replayed").first
        await burst.get_by_text("4 letters").click()
        assert await burst.get_by_role("link").count() == 4, "one line of the audit, which has them all"
        await go(page, "jobs?q=owner:later", "Jobs that fit owner:later")
        await page.get_by_label(f"Choose {later[0]}").check()
        await page.get_by_role("button", name="Cancel chosen").click()
        await page.get_by_role("dialog").get_by_role("button", name="Cancel", exact=True).click()
        await says(page, "1 job cancelled.")
        await page.get_by_role("button", name="Set priority of all that fit").click()
        await page.get_by_role("dialog").get_by_role("button", name="Set priority", exact=True).click()
        await says(page, "1 job given another priority")
    assert (await place.ask("GET", f"/api/ops/jobs/{later[0]}"))["state"] == "cancelled"
    assert (await place.ask("GET", f"/api/ops/jobs/{later[1]}"))["state"] == "queued"
    letter = (await place.ask("GET", f"/api/ops/jobs/{dead[0]}"))["dead_letter"]
    assert (letter["state"], letter["evidence"]) == ("replayed", "the vases were glued")

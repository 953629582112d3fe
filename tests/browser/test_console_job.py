"""A job's page: its life on a time axis, its children, the answer it waits for, and ways to hand it on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.browser.deployment import Deployment
from tests.browser.pages import HOSTILE, go, picture, says, signed_in
from tests.browser.shop import Order

from holdfast.kernel.submit import submit


@pytest.mark.spec("K17")
async def test_a_job_is_a_waterfall_and_its_waiting_is_answered_by_a_person(browser: Any, place: Deployment) -> None:
    kernel = place.kernel()
    job = await submit(kernel, type(kernel.registry.kinds["shop.bundle"].instance), Order(HOSTILE[:100]))
    await place.reaches(job, "waiting")
    permissions = ["clipboard-read", "clipboard-write"]
    async with signed_in(browser, place, to=f"/console#job/{job}", permissions=permissions) as page:
        chart = page.get_by_role("table", name="Waterfall")
        await chart.get_by_role("row", name="attempt 1: ask").wait_for()
        await chart.get_by_role("row", name="waits for an answer").get_by_text("so far").wait_for()
        await page.wait_for_function("(id) => document.title.includes(`shop.bundle ${id} waiting`)", arg=job[:8])
        await page.get_by_label("The answer, as JSON").fill("{no json")
        await page.get_by_role("button", name="Answer it").click()
        await says(page, "The answer is not JSON")
        assert await page.get_by_label("The answer, as JSON").input_value() == "{no json"
        await page.get_by_label("The answer, as JSON").fill('{"may": "yes"}')
        await page.get_by_role("button", name="Answer it").click()
        await says(page, "The job has its answer.")
        await page.get_by_role("heading", name="Children: 2 of 2 ended").wait_for()
        await chart.locator(".is-gap").get_by_text("waits for its children").first.wait_for()
        await picture(page, "waterfall")
        await page.get_by_role("button", name="Copy as JSON").click()
        await says(page, "The job is copied.")
        copied = json.loads(await page.evaluate("navigator.clipboard.readText()"))
        assert copied["id"] == job and copied["waterfall"]
        await page.get_by_role("button", name="Copy link").click()
        await says(page, "The link is copied.")
        assert await page.evaluate("navigator.clipboard.readText()") == f"{place.address}/console#job/{job}"
        child = copied["children"][0]["id"]
        await go(page, f"job/{child}", "shop.order")
        await page.get_by_role("link", name=job).click()
        await page.get_by_role("heading", name="shop.bundle").wait_for()

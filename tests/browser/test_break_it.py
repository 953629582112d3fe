"""Break it yourself, in a real browser: switches on the front page of somebody's own app, and the account."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from tests.browser.deployment import Deployment, deployed
from tests.browser.pages import CONTRAST, picture, says, signed_in


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """The shop alone, as `holdfast up --app shop:app` runs it."""
    async with deployed(tmp_path_factory.mktemp("break"), to_break=True, systems=None) as running:
        yield running


def figure(page: Any, name: str) -> Any:
    return page.locator(".figure", has_text=name).locator("strong")


async def reads(page: Any, **wanted: int) -> None:
    """The account says this, in the end."""
    for name, number in wanted.items():
        await figure(page, name).get_by_text(str(number), exact=True).wait_for()
    numbers = {name: int(await figure(page, name).inner_text()) for name in ("accepted", "done", "waiting", "dead")}
    assert numbers["accepted"] == numbers["done"] + numbers["waiting"] + numbers["dead"]
    for words in ("0 lost", "0 twice"):
        await page.locator("#account").get_by_text(words).wait_for()


async def test_a_provider_goes_down_and_comes_back_and_the_account_adds_up(browser: Any, place: Deployment) -> None:
    async with signed_in(browser, place) as page:
        await page.get_by_role("heading", name="Break it yourself").wait_for()
        send = page.locator("#send")
        await send.get_by_label("Kind").select_option(label="shop.order")
        await send.get_by_label("item").fill("rope")
        await send.get_by_label("How many").select_option("10")
        await send.get_by_role("button", name="Send").click()
        await reads(page, accepted=10, done=10)
        bank = page.get_by_role("group", name="bank")
        await bank.get_by_role("button", name="down").click()
        await send.get_by_label("How many").select_option("50")
        await send.get_by_role("button", name="Send").click()
        await bank.get_by_text("breaker").wait_for()
        await figure(page, "accepted").get_by_text("60", exact=True).wait_for()
        assert await page.evaluate(CONTRAST) == []
        await picture(page, "break-it")
        await page.reload()
        assert await bank.get_by_role("button", name="down").get_attribute("aria-pressed") == "true"
        await bank.get_by_role("button", name="works").click()
        await place.ask("POST", "/api/ops/breakers/bank/close", json={"reason": "mended"})
        await reads(page, accepted=60, done=60, waiting=0, dead=0)


@pytest.mark.spec("K3")
async def test_a_worker_is_killed_in_the_middle_and_its_jobs_come_back(browser: Any, place: Deployment) -> None:
    place.mood.slow = asyncio.Event()
    async with signed_in(browser, place) as page:
        before = int(await figure(page, "accepted").inner_text())
        send = page.locator("#send")
        await send.get_by_label("Kind").select_option(label="shop.order")
        await send.get_by_label("item").fill("anchor")
        await send.get_by_label("parcel").fill("parcel-1")
        await send.get_by_label("How many").select_option("1")
        await send.get_by_role("button", name="Send").click()
        await page.locator("#account").get_by_text("1 running").wait_for()
        await page.get_by_role("button", name="Kill the worker").click()
        await says(page, "comes back when the leases end")
        await page.get_by_text("killed 1 time").wait_for()
        assert "1 running" in await page.locator("#account").inner_text(), "its lease must end first"
        place.mood.slow.set()
        await reads(page, accepted=before + 1, done=before + 1, waiting=0)
    place.mood.slow = None


async def test_the_form_fits_the_input_and_refuses_what_does_not_fit(browser: Any, place: Deployment) -> None:
    async with signed_in(browser, place) as page:
        send = page.locator("#send")
        await send.get_by_label("Kind").select_option(label="shop.bundle")
        for label in ("item", "parcel", "pieces", "is_gift"):
            await send.get_by_label(label, exact=True).wait_for()
        assert await send.get_by_label("is_gift").get_attribute("type") == "checkbox"
        await send.get_by_label("pieces").fill("1.5")
        await send.get_by_role("button", name="Send").click()
        await says(page, "The input of 'shop.bundle' does not fit")


async def test_nobody_but_an_operator_may_break_anything(browser: Any, place: Deployment) -> None:
    async with signed_in(browser, place, sub="vera", roles=["viewer"]) as page:
        await page.get_by_role("heading", name="Break it yourself").wait_for()
        await page.get_by_role("group", name="bank").get_by_role("button", name="down").click()
        await says(page, "This needs the role operator.")
    async with signed_in(browser, place, sub="lena", roles=["learner"]) as page:
        await says(page, "Ready to accept work.")
        assert not await page.get_by_role("heading", name="Break it yourself").is_visible()
    async with httpx.AsyncClient(base_url=place.address) as client:
        headers = {"Authorization": f"Bearer {place.token()}", "X-Forwarded-For": "10.1.2.3"}
        body = {"system": "shop"}
        assert (await client.post("/api/playground/kill", json=body)).status_code == 401
        away = await client.post("/api/playground/kill", json={"system": "nowhere"}, headers=headers)
        assert away.status_code in (403, 404)

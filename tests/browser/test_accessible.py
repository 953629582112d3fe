"""Every page for everybody: axe finds nothing, there is one h1 and a way past the menu, at three sizes."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest
from tests.browser.deployment import Deployment
from tests.browser.pages import picture, signed_in

from holdfast.kernel.hold import force
from holdfast.operator.incident_watch import watch_incidents

SIZES = {"phone": (390, 844), "laptop": (1280, 720), "wide": (1920, 1080)}
PAGES = {
    "/": "#well:not(.soft)",
    "/convert": "#jobs",
    "/instructor": "#desk .bar",
    "/docs": "details",
    "/login": "#token",
    "/console": "#view h2",
    "/console#jobs": "#view h2",
    "/console#dead": "#view h2",
}
AXE = (files("axe_core_python") / "axe.min.js").read_text()
BROKEN = """async (rules) => (await axe.run(document, { resultTypes: ["violations"], ...rules })).violations
    .map((rule) => `${rule.id}: ${rule.nodes.map((node) => node.html.slice(0, 120)).join(" | ")}`)"""
COLOURS = {"runOnly": ["color-contrast"]}
TOO_WIDE = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.parametrize("path", PAGES)
async def test_every_page_is_accessible_and_fits(browser: Any, place: Deployment, path: str) -> None:
    """By all rules on a phone in light; the colours once more in dark, where nothing else is drawn differently."""
    async with signed_in(browser, place, to=path, bypass_csp=True) as page:
        await page.locator(PAGES[path]).first.wait_for(state="attached")
        assert await page.locator("h1").count() == 1, path
        assert await page.locator("a.skip").count() == 1, path
        await page.evaluate(AXE)
        for size, scheme, rules in (("wide", "light", None), ("phone", "light", {}), ("laptop", "dark", COLOURS)):
            width, height = SIZES[size]
            await page.set_viewport_size({"width": width, "height": height})
            await page.emulate_media(color_scheme=scheme)
            assert await page.evaluate(TOO_WIDE) <= 0, f"{path} must be pushed sideways at {size}"
            assert rules is None or await page.evaluate(BROKEN, rules) == [], (path, size, scheme)
            if path == "/":
                await picture(page, f"front-{size}-{scheme}", whole=False)


async def test_what_an_outage_leads_to_is_accessible(browser: Any, place: Deployment) -> None:
    """The views of one thing each: an incident, a held job, a dead letter, its group, a breaker; and the lists."""
    kernel = place.kernel()
    job, letter = await place.dies("mast", owner="ann")
    await force(kernel, "bank", open=True, actor="olga", reason="the bank answers 503")
    held = await place.order("mast", owner="ann")
    await watch_incidents(kernel)
    incident = (await place.ask("GET", "/api/ops/incidents?state=open"))["items"][0]["id"]
    group = (await place.ask("GET", f"/api/ops/dead-letters/{letter}"))["fingerprint"]
    views = [f"incident/{incident}", f"job/{held}", f"job/{job}", f"letter/{letter}", f"group/shop/{group}"]
    views += ["overview", "breaker/shop/bank", "incidents", "time", "breakers", "outbox", "machines", "audit"]
    async with signed_in(browser, place, to="/console", bypass_csp=True) as page:
        await page.evaluate(AXE)
        for view in views:
            await page.evaluate("(hash) => { location.hash = hash; }", view)
            await page.wait_for_function("() => document.querySelector('#view').dataset.place === location.hash")
            for size, scheme, rules in (("laptop", "light", {}), ("phone", "dark", COLOURS)):
                width, height = SIZES[size]
                await page.set_viewport_size({"width": width, "height": height})
                await page.emulate_media(color_scheme=scheme)
                assert await page.evaluate(TOO_WIDE) <= 0, f"{view} must be pushed sideways at {size}"
                assert await page.evaluate(BROKEN, rules) == [], (view, size, scheme)

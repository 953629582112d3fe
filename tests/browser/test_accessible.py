"""Every page for everybody: axe finds nothing, there is one h1 and a way past the menu, at three sizes."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest
from tests.browser.deployment import Deployment
from tests.browser.pages import picture, signed_in

SIZES = {"phone": (390, 844), "laptop": (1280, 720), "wide": (1920, 1080)}
PAGES = {
    "/": "#well.good",
    "/convert": "#jobs",
    "/instructor": "#desk .bar",
    "/docs": "details",
    "/login": "#token",
    "/console": "#view h2",
    "/console#jobs": "#view h2",
    "/console#dead": "#view h2",
}
AXE = (files("axe_core_python") / "axe.min.js").read_text()
BROKEN = """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
    .map((rule) => `${rule.id}: ${rule.nodes.map((node) => node.html.slice(0, 120)).join(" | ")}`)"""
TOO_WIDE = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.parametrize(("size", "scheme"), [("phone", "light"), ("laptop", "dark"), ("wide", "light")])
async def test_every_page_is_accessible_and_fits(browser: Any, place: Deployment, size: str, scheme: str) -> None:
    width, height = SIZES[size]
    options = {"viewport": {"width": width, "height": height}, "color_scheme": scheme, "bypass_csp": True}
    async with signed_in(browser, place, **options) as page:
        for path, drawn in PAGES.items():
            await page.goto("about:blank")
            await page.goto(f"{place.address}{path}")
            await page.locator(drawn).first.wait_for(state="attached")
            await page.evaluate(AXE)
            assert await page.evaluate(BROKEN) == [], (path, size, scheme)
            assert await page.locator("h1").count() == 1, path
            assert await page.locator("a.skip").count() == 1, path
            assert await page.evaluate(TOO_WIDE) <= 0, f"{path} must be pushed sideways at {size}"
            if path == "/":
                await picture(page, f"front-{size}-{scheme}", whole=False)

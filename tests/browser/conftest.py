"""One browser and one deployment for each process of the tests: starting them is much of the time.

All of them live in the session's event loop, and so do the tests of this folder.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.browser.deployment import Deployment, deployed
from tests.services.fixtures import do_without
from tests.services.found import find_chromium

from holdfast.kernel.hold import force

HERE = Path(__file__).parent
LEAN = ["--no-sandbox", "--disable-gpu", "--disable-software-rasterizer", "--disable-extensions"]
"""Nobody looks at what is drawn, so nothing pretends to be a graphics card."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
            item.add_marker(pytest.mark.slow)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Any]:
    """Chromium; where there is none the pages are not tested, and that is said loudly (a failure when CI=true)."""
    api = pytest.importorskip(
        "playwright.async_api", reason="PLAYWRIGHT IS MISSING: the pages are not tested; install playwright"
    )
    chromium = find_chromium()
    if chromium is None:
        do_without("CHROMIUM IS MISSING: the pages are not tested; install chromium")
    async with api.async_playwright() as driver:
        opened = await driver.chromium.launch(executable_path=chromium, args=LEAN)
        yield opened
        await opened.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """Every system and the shop, live; each test meets what the tests before it left, as on any day but the first."""
    async with deployed(tmp_path_factory.mktemp("deployment")) as running:
        yield running


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def calm(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """After a test, passed or failed, the world treats the shop well again, so that the next one meets no outage."""
    place = request.getfixturevalue("place") if "place" in request.fixturenames else None
    yield
    if isinstance(place, Deployment):
        place.mood.calm_down()
        for each in (await place.ask("GET", "/api/ops/breakers"))["items"]:
            if each["system"] == "shop" and each["gate"] != "closed":
                await force(place.kernel(), each["name"], open=False, actor="olga", reason="over")

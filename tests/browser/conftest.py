"""One browser for each worker of the tests, and one deployment for each module: starting them is most of the time.

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

HERE = Path(__file__).parent


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
        opened = await driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        await opened.close()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """Every system and the shop, live."""
    async with deployed(tmp_path_factory.mktemp("deployment")) as running:
        yield running

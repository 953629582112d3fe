"""The pytest plugin: it is there as soon as Holdfast is installed.

async def test_an_order_is_placed(holdfast_world, client, database_url):
    async with holdfast_world(app, database=database_url) as w:
        await client.post("/orders", json={"article": "lamp"})
        await w.run_until_idle()

async def test_an_order_of_last_year_still_runs(holdfast_world, holdfast_history):
    async with holdfast_world(app) as w:
        job = await w.load(holdfast_history("order.json"))
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from holdfast.kernel.app import App
    from holdfast.testing import World
    from holdfast.testing.history import History


class OpenWorld(Protocol):
    """What `holdfast_world` is: `holdfast.testing.world`, strict unless it is told otherwise."""

    def __call__(
        self, *apps: App, seed: int = 1, database: str | None = None, strict: bool = True
    ) -> AbstractAsyncContextManager[World]: ...


@pytest.fixture
def holdfast_world() -> OpenWorld:
    """Opens a world that fails the test on forgotten awaits, on a blocked event loop, and on exceptions that nothing
    recognises."""
    from holdfast.core.given import give_names
    from holdfast.testing import world

    @give_names
    def open_world(
        *apps: App, seed: int = 1, database: str | None = None, strict: bool = True
    ) -> AbstractAsyncContextManager[World]:
        return world(*apps, seed=seed, database=database, strict=strict)

    return open_world


@pytest.fixture
def holdfast_history(request: pytest.FixtureRequest) -> Callable[[str], History]:
    """Reads what `holdfast jobs show ID --json` has written, from a file beside the test."""
    from holdfast.testing.history import History

    return lambda name: History.read(request.path.parent / name)

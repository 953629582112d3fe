"""Two systems behind one desk: one list, and every item names its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.http.conftest import Client
from tests.http.test_ops import OPS, did, got, refused, wish
from tests.http.wishes import app

from holdfast.http.app import create_app
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.settings import Settings
from holdfast.stores.sqlite import SqliteStore
from holdfast.system import OpenSystem, System
from holdfast.testing import HandClock


@pytest.fixture
async def two(tmp_path: Any, settings: Settings, clock: HandClock) -> AsyncIterator[dict[str, Kernel]]:
    kernels = {
        name: Kernel(store=SqliteStore(tmp_path / f"{name}.db", clock=clock), registry=Registry([app]))
        for name in ("east", "west")
    }
    for one in kernels.values():
        await one.migrate()
    yield kernels
    for one in kernels.values():
        await one.store.close()


async def test_several_systems_are_one_list_and_each_item_names_its_own(
    two: dict[str, Kernel], settings: Settings, client: Client, clock: HandClock
) -> None:
    opened = [
        OpenSystem(System(name, name.title(), "X", build=lambda env: app), kernel, {}) for name, kernel in two.items()
    ]
    both = client("olga", "operator", to=create_app(settings, opened))
    made = []
    for n in range(6):
        clock.advance(1)
        name = ("east", "west")[n % 2]
        made.append((name, await wish(two[name])))
    first = await got(both, "/jobs?limit=4")
    second = await got(both, f"/jobs?limit=4&next={first['next']}")
    listed = [(item["system"], item["id"]) for item in first["items"] + second["items"]]
    assert listed == made[::-1] and second["next"] is None
    assert [item["system"] for item in (await got(both, "/jobs?system=east"))["items"]] == ["east"] * 3
    assert (await got(both, f"/jobs/{made[1][1]}"))["system"] == "west"
    assert await refused(both, "/breakers/oracle/open") == (409, "SYSTEM_AMBIGUOUS")
    assert (await did(both, "/breakers/oracle/open?system=west"))["system"] == "west"
    gates = {item["system"]: item["gate"] for item in (await got(both, "/breakers"))["items"]}
    assert gates == {"east": "closed", "west": "open"}
    assert (await both.get(f"{OPS}/jobs?system=north")).status_code == 404
    await asyncio.gather(*(got(both, path) for path in ("/audit", "/outbox", "/effects", "/workers", "/schedules")))

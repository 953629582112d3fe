"""A conversion system in one test: its kernel, its worker, its web application, and a gateway that does as told."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from tests.http.described import Described

from holdfast.engines.worker import Worker
from holdfast.http.app import create_app
from holdfast.http.auth import token_for
from holdfast.kernel.kernel import Kernel
from holdfast.settings import Settings, read
from holdfast.stores.clock import Clock
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.system import OpenSystem
from holdfast.testing import HandClock, World
from holdfast_systems.conversion.gateway import Gateway
from holdfast_systems.conversion.jobs import build_app
from holdfast_systems.conversion.settings import ConversionSettings
from holdfast_systems.conversion.system import system

SECRET = "a-secret-of-the-tests-" + "that-is-long-enough-" * 3
XML = b"<?xml version='1.0'?><TEI><p>text</p></TEI>"
PDF = b"%PDF-1.7\n" + b"text " * 400

AnyStore = SqliteStore | PostgresStore


@dataclass
class ToldGateway:
    """Answers with XML, or with the errors it is told, first to last. `hold` keeps calls until it is set."""

    errors: list[Exception] = field(default_factory=list)
    well: bool = True
    calls: list[Path] = field(default_factory=list)
    hold: asyncio.Event | None = None
    called: asyncio.Event = field(default_factory=asyncio.Event)
    xml: bytes = XML

    async def convert(self, source: Path, *, timeout_s: float) -> bytes:
        self.calls.append(source)
        self.called.set()
        if self.hold is not None:
            await self.hold.wait()
        if self.errors:
            raise self.errors.pop(0)
        return self.xml

    async def healthy(self) -> bool:
        return self.well


@dataclass
class Place:
    """Everything of one deployment. `world` has the clock and may run jobs; `web` answers requests."""

    world: World
    web: FastAPI
    settings: ConversionSettings
    base: Settings
    gateway: Any
    clients: list[httpx.AsyncClient] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.described = Described(self.web)

    @property
    def kernel(self) -> Kernel:
        return self.world.kernel

    def client(self, sub: str | None = "ann", *, roles: tuple[str, ...] = ()) -> httpx.AsyncClient:
        headers = {} if sub is None else {"Authorization": f"Bearer {token_for(self.base, sub, roles)}"}
        transport = httpx.ASGITransport(self.described, raise_app_exceptions=False)
        self.clients.append(httpx.AsyncClient(transport=transport, base_url="http://holdfast", headers=headers))
        return self.clients[-1]

    async def upload(self, sub: str = "ann", pdf: bytes = PDF, name: str = "a.pdf", **form: str) -> dict[str, Any]:
        answer = await self.client(sub).post("/api/jobs", files={"file": (name, pdf)}, data=form)
        assert answer.status_code == 202, answer.text
        return dict(answer.json())

    async def job(self, job_id: str, sub: str = "ann") -> dict[str, Any]:
        answer = await self.client(sub).get(f"/api/jobs/{job_id}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def work(self) -> None:
        """Run what is due now, and nothing that is due later."""
        await Worker(self.kernel, concurrency=2).run_until_idle()

    def files(self) -> tuple[list[str], list[str]]:
        """What lies in the uploads and in the results folder, without the hashes in the names of results."""
        results = [re.sub(r"\.[0-9a-f]{64}\.xml$", ".xml", p.name) for p in self.settings.results.iterdir()]
        return sorted(p.name for p in self.settings.uploads.iterdir()), sorted(results)


def environment(folder: Path, **given: str) -> dict[str, str]:
    return {"HOLDFAST_DATA_DIR": str(folder), **given}


@asynccontextmanager
async def opened(
    open_store: Callable[[Clock], AnyStore],
    env: Mapping[str, str],
    gateway: Gateway | None = None,
    clock: HandClock | None = None,
) -> AsyncIterator[Place]:
    """A deployment of the conversion system on a store of its own."""
    settings = read(ConversionSettings, env)
    inner = gateway or ToldGateway()
    app = build_app(settings, inner)
    world = World([app], open_store, clock or HandClock(), 1)
    await world.kernel.migrate()
    base = Settings(data_dir=env["HOLDFAST_DATA_DIR"], jwt_secret=SECRET)
    web = create_app(base, [OpenSystem(system(), world.kernel, env)])
    place = Place(world, web, settings, base, inner)
    try:
        yield place
    finally:
        for client in place.clients:
            await client.aclose()
        await world.close()
    assert place.described.problems == []


def read_events(text: str) -> list[tuple[str, dict[str, Any]]]:
    """The name and the data of each event of a stream."""
    found = []
    for block in text.replace("\r\n", "\n").strip().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "data" in lines:
            found.append((lines.get("event", "message"), json.loads(lines["data"])))
    return found

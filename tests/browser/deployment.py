"""All systems and a shop, as `holdfast up` runs them, on a free port and a data folder of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from tests.browser.shop import Mood, Order, shop_app
from tests.http.described import Described
from tests.roles import ROLES
from tests.systems.conversion.live import Server

from holdfast.engines.run import Duties, prepare, run
from holdfast.engines.worker import Worker
from holdfast.http.app import create_app
from holdfast.http.auth import token_for
from holdfast.http.playground import Playground
from holdfast.kernel.app import Job
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.submit import submit
from holdfast.main import close_systems, open_systems
from holdfast.playground.book import Book
from holdfast.playground.sabotage import Sabotage
from holdfast.settings import Settings
from holdfast.system import OpenSystem

SYSTEMS = ("conversion", "grading-main", "grading-service", "review")
PATIENCE_S = 60.0
SECRET = "a-secret-of-the-tests-" + "that-is-long-enough-" * 3


@dataclass
class Deployment:
    """What a test may reach: the address, the kernels by system, the shop's mood, and tokens for anyone."""

    address: str
    settings: Settings
    opened: Sequence[OpenSystem]
    mood: Mood
    sell: type[Job[Any]]
    folder: Path
    web: FastAPI

    def kernel(self, system: str = "shop") -> Kernel:
        return next(one.kernel for one in self.opened if one.name == system)

    def token(self, sub: str = "olga", roles: Sequence[str] = ROLES) -> str:
        return token_for(self.settings, sub, roles)

    async def order(self, item: str, parcel: str = "", **options: Any) -> str:
        return await submit(self.kernel(), self.sell, Order(item, parcel), **options)

    async def ask(self, method: str, path: str, *, sub: str = "olga", **request: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token(sub)}"} | request.pop("headers", {})
        async with httpx.AsyncClient(base_url=self.address, timeout=60) as client:
            answer = await client.request(method, path, headers=headers, **request)
        assert answer.status_code < 300, answer.text
        return answer.json()

    async def reaches(self, job_id: str, *states: str) -> dict[str, Any]:
        """The job's story, once it is in one of these states."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                job = await self.ask("GET", f"/api/ops/jobs/{job_id}")
                if job["state"] in states:
                    return dict(job)
                await asyncio.sleep(0.05)

    async def dies(self, item: str, why: str = "The card was refused.", **options: Any) -> tuple[str, str]:
        """An order that ends as a dead letter: its job and its letter."""
        self.mood.broken[item] = why
        job_id = await self.order(item, **options)
        job = await self.reaches(job_id, "dead")
        return job_id, str(job["dead_letter"]["id"])


@asynccontextmanager
async def deployed(
    folder: Path, *, shop: bool = True, to_break: bool = False, systems: Sequence[str] | None = SYSTEMS, **env: str
) -> AsyncIterator[Deployment]:
    """Run everything until the block ends; `to_break` as `holdfast up` does it, with switches on the front page."""
    settings = Settings(data_dir=str(folder / "data"), jwt_secret=SECRET, lease_s=3 if to_break else 60)
    own = {"HOLDFAST_DATA_DIR": settings.data_dir, "REVIEW_LOCAL_ROOTS": str(folder), "GRADING_LANGUAGE_MODEL": "off"}
    own |= env
    mood = Mood()
    app, sell = shop_app(mood)
    opened = await open_systems(settings, own, systems, [app] if shop else [])
    sabotage = Sabotage(Book(folder / "playground.db"))
    if to_break:
        sabotage.attach(opened)
    offers = frozenset({"shop"})
    web = create_app(settings, opened, to_break=Playground(sabotage, opened, offers) if to_break else None)
    stop = asyncio.Event()
    described = Described(web)
    server = Server(uvicorn.Config(described, port=0, log_config=None, timeout_graceful_shutdown=1))
    try:
        for one in opened:
            await one.kernel.migrate()
            await prepare(one.kernel)
        duties = []
        for one in opened:
            run_worker = partial(sabotage.run_worker, one.name) if to_break else Worker.run
            asked = one.duties(Duties(concurrency=4))
            duties.append(asyncio.ensure_future(run(one.kernel, asked, stop, run_worker=run_worker)))
        serving = asyncio.ensure_future(server.serve())
        await server.listening.wait()
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Deployment(f"http://127.0.0.1:{port}", settings, opened, mood, sell, folder, web)
        web.state.stopping.set()
        stop.set()
        server.should_exit = True
        await asyncio.gather(*duties, serving)
    finally:
        await close_systems(opened)
        sabotage.book.close()
    assert not described.problems, f"answers that the document does not describe: {described.problems[:5]}"

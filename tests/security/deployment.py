"""All systems on SQLite in one process, with their whole web application, and callers of every role."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from holdfast import App
from holdfast.engines.run import Duties, prepare, run
from holdfast.http.app import create_app
from holdfast.http.auth import token_for
from holdfast.http.metrics import PrometheusWatch
from holdfast.http.server import ConnectionLimits, limited_protocol
from holdfast.main import close_systems, load_systems, open_systems
from holdfast.settings import Settings, read
from holdfast.system import OpenSystem
from holdfast_systems.conversion.demo import pdf

SECRET = "a-secret-of-the-tests-" + "that-is-long-enough-" * 3
DIFF = {"type": "url", "url": "https://diffs.example.test/1.diff"}
ESSAY = "Dear Ms Lan, thank you for your letter. I would be glad to visit the school in May. Best wishes, An"


@dataclass
class Deployment:
    """Everything that `holdfast up` runs, without its port."""

    settings: Settings
    systems: list[OpenSystem]
    web: FastAPI
    clients: list[httpx.AsyncClient] = field(default_factory=list)

    def client(self, sub: str | None = None, *roles: str) -> httpx.AsyncClient:
        """client("ann", "learner") signs in; client() does not."""
        return self.bearing(None if sub is None else token_for(self.settings, sub, roles))

    def bearing(self, token: str | None) -> httpx.AsyncClient:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        transport = httpx.ASGITransport(self.web, raise_app_exceptions=False)
        self.clients.append(httpx.AsyncClient(transport=transport, base_url="http://holdfast", headers=headers))
        return self.clients[-1]

    def system(self, name: str) -> OpenSystem:
        return next(one for one in self.systems if one.name == name)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Workers, relays, consumers and sweeps of every system run beside the block."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for one in self.systems:
                group.create_task(run(one.kernel, one.duties(Duties(concurrency=4, grace_s=5)), stop))
            try:
                yield
            finally:
                stop.set()

    async def until(self, system: str, reached: Callable[[], Awaitable[bool]], within_s: float = 240) -> None:
        """Wait until a question is answered with yes; asked anew whenever something happens in the system."""
        listener = self.system(system).kernel.store.listen("events")
        try:
            async with asyncio.timeout(within_s):
                while not await reached():
                    await listener.wait(0.2)
        finally:
            listener.close()

    async def submission(self, sub: str, text: str = ESSAY, **payload: Any) -> dict[str, Any]:
        body = {"skill": "writing", "payload": {"text": text, "taskType": "email", "questionId": "q", **payload}}
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        return _made(await self.client(sub, "learner").post("/api/submissions", json=body, headers=headers))

    async def speech(self, sub: str, url: str) -> dict[str, Any]:
        payload = {"audioUrl": url, "durationSeconds": 30, "questionId": "q"}
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        body = {"skill": "speaking", "payload": payload}
        return _made(await self.client(sub, "learner").post("/api/submissions", json=body, headers=headers))

    async def conversion(self, sub: str, title: str = "On Tides", name: str = "a.pdf", **form: str) -> dict[str, Any]:
        files = {"file": (name, pdf(title, ["The moon pulls the sea."]))}
        return _made(await self.client(sub).post("/api/jobs", files=files, data=form))

    async def review(self, changelist: str, version: int = 1, **more: Any) -> dict[str, Any]:
        body = {"idempotency_key": str(uuid.uuid4()), "review_version": version, "recipients": ["ada@example.test"]}
        path = f"/api/changelists/{changelist}/reviews"
        return _made(await self.client("ci", "service").post(path, json={**body, "source": DIFF, **more}))


def _made(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code in (200, 201, 202), answer.text
    return dict(answer.json())


@asynccontextmanager
async def deployed(folder: Path, *, apps: Sequence[App] = (), **given: str) -> AsyncIterator[Deployment]:
    env = {"HOLDFAST_DATA_DIR": str(folder), "HOLDFAST_JWT_SECRET": SECRET, "GRADING_LANGUAGE_MODEL": "off", **given}
    settings = read(Settings, env)
    names = [one.name for one in load_systems()]
    systems = await open_systems(settings, env, names, apps, watch=PrometheusWatch())
    for one in systems:
        await one.kernel.migrate()
        await prepare(one.kernel)
    made = Deployment(settings, systems, create_app(settings, systems))
    try:
        yield made
    finally:
        for client in made.clients:
            await client.aclose()
        await close_systems(systems)


@asynccontextmanager
async def serving(place: Deployment, limits: ConnectionLimits) -> AsyncIterator[tuple[int, set[Any]]]:
    """The deployment behind a real socket; gives the port and the connections that the server holds."""
    config = uvicorn.Config(
        place.web, port=0, http=limited_protocol(limits), log_config=None, access_log=False, lifespan="off"
    )
    config.timeout_keep_alive = limits.keep_alive_s  # type: ignore[assignment]
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve())
    try:
        while not server.started:  # noqa: ASYNC110, uvicorn rings no bell
            await asyncio.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1], server.server_state.connections
    finally:
        place.web.state.stopping.set()
        server.should_exit = True
        await task


@asynccontextmanager
async def served(place: Deployment, limits: ConnectionLimits) -> AsyncIterator[int]:
    """The port of a deployment behind a real socket."""
    async with serving(place, limits) as (port, _):
        yield port

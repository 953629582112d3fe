"""The main app and the grading service, each with a port and a database of its own, as two processes would have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from tests.http.described import Described
from tests.roles import ROLES
from tests.systems.conversion.live import Server
from tests.systems.grading.pair import Pair

from holdfast.http.app import create_app
from holdfast.http.auth import token_for
from holdfast.settings import Settings
from holdfast.system import OpenSystem
from holdfast_systems.grading.system import grading_main, grading_service

SECRET = "a-secret-of-the-tests-" + "that-is-long-enough-" * 3


@dataclass
class Served:
    """An app on a port. Leaving `stack` ends it."""

    address: str
    settings: Settings
    stack: AsyncExitStack

    def token(self, sub: str = "olga", roles: Sequence[str] = ROLES) -> str:
        return token_for(self.settings, sub, roles)

    async def ask(self, method: str, path: str, *, roles: Sequence[str] = ROLES, **request: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token(roles=roles)}"}
        async with httpx.AsyncClient(base_url=self.address, timeout=60, verify=False) as client:
            return await client.request(method, path, headers=headers, **request)


@asynccontextmanager
async def two_servers(
    pair: Pair, folder: Path, *, service_secret: str = SECRET, **env: str
) -> AsyncIterator[tuple[Served, Served]]:
    """Both behind HTTP; the main app knows the service's address and nothing else of it."""
    async with AsyncExitStack() as stack:
        theirs = Settings(data_dir=str(folder / "theirs"), jwt_secret=service_secret)
        service = await _served(stack, theirs, OpenSystem(grading_service(), pair.service.kernel, {}))
        ours = Settings(data_dir=str(folder / "ours"), jwt_secret=SECRET)
        own = {"GRADING_SERVICE_URL": service.address, **env}
        main = await _served(stack, ours, OpenSystem(grading_main(), pair.main.kernel, own))
        yield main, service


async def _served(outer: AsyncExitStack, settings: Settings, system: OpenSystem) -> Served:
    stack = await outer.enter_async_context(AsyncExitStack())
    address = await stack.enter_async_context(_listening(create_app(settings, [system])))
    return Served(address, settings, stack)


@asynccontextmanager
async def _listening(web: FastAPI) -> AsyncIterator[str]:
    described = Described(web)
    server = Server(uvicorn.Config(described, port=0, log_config=None, timeout_graceful_shutdown=1))
    serving = asyncio.ensure_future(server.serve())
    await server.listening.wait()
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        web.state.stopping.set()
        server.should_exit = True
        await serving
    assert described.problems == []

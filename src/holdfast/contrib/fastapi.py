"""Holdfast in a FastAPI or Starlette application: the worker runs beside your endpoints, or elsewhere.

    jobs = Lifespan(shop, database=URL)
    web = FastAPI(lifespan=jobs)

    @web.get("/jobs/{job_id}")
    async def show(job_id: str, client: Annotated[Client, Depends(jobs.client)]) -> ...:

Endpoints write jobs in their own transaction with `holdfast.enqueue`; the worker of the same process is woken by it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

from holdfast.client import Client
from holdfast.core.given import give_names
from holdfast.engines.run import Duties, await_schema, prepare, run
from holdfast.errors import BadDeclaration, NotAllowed
from holdfast.kernel.app import App
from holdfast.kernel.kernel import Kernel
from holdfast.main import close_systems, open_kernel, open_transport
from holdfast.settings import Settings, read
from holdfast.system import OpenSystem, System

HostLifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


@give_names
class Lifespan:
    """Runs the jobs of `apps` for as long as the application does.

    With `work=False` it only looks whether the database fits, so that a start fails and not the first request; the
    workers run elsewhere. `around` is the lifespan that the application has already, entered after the jobs' own."""

    def __init__(
        self,
        *apps: App,
        database: str | None = None,
        work: bool = True,
        concurrency: int | None = None,
        settings: Settings | None = None,
        around: HostLifespan | None = None,
    ) -> None:
        if not apps or not all(isinstance(app, App) for app in apps):
            raise BadDeclaration("A Lifespan needs the app whose jobs it runs: Lifespan(app, database=...).")
        self._apps = apps
        self._database = database
        self._work = work
        self._concurrency = concurrency
        self._settings = settings
        self._around = around
        self._client: Client | None = None

    def client(self) -> Client:
        """For `Depends`: a client on the connections of this application. Raises `NotAllowed` while it does not run."""
        if self._client is None:
            raise NotAllowed("The application does not run: its lifespan has not begun, or has ended.")
        return self._client

    @asynccontextmanager
    async def __call__(self, web: Any) -> AsyncIterator[Any]:
        settings = self._settings or read(Settings, os.environ)
        if self._database is not None:
            settings = replace(settings, database_url=self._database)
        async with AsyncExitStack() as stack:
            kernel = open_kernel(settings, self._apps, transport=open_transport(settings))
            system = System(self._apps[0].name, self._apps[0].name, (), lambda env: self._apps[0])
            stack.push_async_callback(close_systems, [OpenSystem(system, kernel, {})])
            if self._work:
                await prepare(kernel)
                concurrency = self._concurrency or settings.concurrency
                await stack.enter_async_context(
                    _working(kernel, Duties(concurrency=concurrency, grace_s=settings.grace_s))
                )
            else:
                await await_schema(kernel)
            self._client = Client(kernel)
            stack.callback(self._forget_client)
            yield await stack.enter_async_context(self._around(web)) if self._around is not None else None

    def _forget_client(self) -> None:
        self._client = None


@asynccontextmanager
async def _working(kernel: Kernel, duties: Duties) -> AsyncIterator[None]:
    """Do the duties meanwhile. At the end the worker stops claiming and finishes what it holds, within its grace."""
    stop = asyncio.Event()
    task = asyncio.create_task(run(kernel, duties, stop))
    task.add_done_callback(lambda ended: _report(kernel, ended, stop))
    try:
        yield
    finally:
        stop.set()
        await task


def _report(kernel: Kernel, ended: asyncio.Task[None], stop: asyncio.Event) -> None:
    """A worker that ends before it is told to must not be noticed only by jobs that wait."""
    if not stop.is_set() and not ended.cancelled() and ended.exception() is not None:
        kernel.watch.log("worker.failed", level=40, error=repr(ended.exception()))

"""The console as a guest of another ASGI application: the host's guard decides who enters, the host's path is below it.

    request -> guard -> None                      401, or to the host's sign-in
                     -> Principal -> a change without our header, or from another site: 403
                                  -> the operator's API and the console's page, as everywhere

The host's cookie is sent by a browser whoever caused the request. So what changes something must carry a header that no
other site can make a browser send.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse
from starlette.types import Receive, Scope, Send

from holdfast.core.redact import redact_text
from holdfast.errors import BadDeclaration, SchemaMismatch, StoreError
from holdfast.http import ops, ops_live, pages
from holdfast.http.app import assemble
from holdfast.http.auth import Principal, require
from holdfast.http.principal import SUB_LENGTH_MAX, is_name
from holdfast.http.problem import Problem, path_below, response_of
from holdfast.kernel.app import App
from holdfast.kernel.upkeep.schema import check_schema
from holdfast.main import close_systems, open_kernel
from holdfast.settings import Settings, read
from holdfast.system import OpenSystem, System

if TYPE_CHECKING:
    from holdfast.http.mount import Guard

CALLER = "holdfast.hosted_caller"
SIGN_IN = "holdfast.hosted_sign_in"
HEADER = "holdfast-console"
SAFE = ("GET", "HEAD", "OPTIONS")

router = APIRouter(include_in_schema=False)


@router.get("/")
async def page(request: Request, who: Annotated[Principal, require("operator")]) -> HTMLResponse:
    """The console's page, which is told that the host signs people in, and where."""
    html = (pages.HERE / "pages_html" / "console.html").read_text()
    sign_in = escape(request.scope[SIGN_IN] or "", quote=True)
    marked = html.replace('<html lang="en">', f'<html lang="en" data-host data-sign-in="{sign_in}">')
    return HTMLResponse(marked, headers=pages.FRESH)


class HostAuth:
    """Whoever the guard let in."""

    async def caller(self, request: Request) -> Principal:
        who: Principal = request.scope[CALLER]
        return who

    async def stream_caller(self, request: Request) -> Principal:
        return await self.caller(request)


class HostedConsole:
    """An ASGI application. It opens its database at the first request, in the event loop of that request."""

    def __init__(
        self,
        apps: Sequence[App],
        guard: Guard,
        *,
        database: str | None,
        sign_in: str | None,
        settings: Settings | None,
    ) -> None:
        if not callable(guard):
            raise BadDeclaration("The console's guard must be a function that takes the request.")
        if not all(isinstance(app, App) for app in apps):
            raise BadDeclaration("The console is of apps: write console(app, guard=...), with the App itself.")
        self._apps = apps
        self._guard = guard
        self._database = database
        self._sign_in = sign_in
        self._settings = settings
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Task[FastAPI] | None = None
        self._resources = AsyncExitStack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            await send({"type": "websocket.close"})

    async def close(self) -> None:
        """End the open streams and close the database. It opens again if it is asked again."""
        opening, self._opening, self._loop = self._opening, None, None
        if opening is not None and not opening.cancelled() and opening.done() and opening.exception() is None:
            opening.result().state.stopping.set()
        await self._resources.aclose()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not path_below(scope):
            await RedirectResponse(f"{scope.get('root_path', '')}/")(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            who = await self._admit(request)
            web = await self._open_web()
        except Problem as problem:
            if problem.status == 401 and self._sign_in is not None and _is_page(request):
                await RedirectResponse(self._sign_in, status_code=303)(scope, receive, send)
            else:
                await response_of(problem)(scope, receive, send)
            return
        await web({**scope, CALLER: who, SIGN_IN: self._sign_in}, receive, send)

    async def _admit(self, request: Request) -> Principal:
        """Whoever the guard lets in; else a Problem. What the guard itself raises is the host's."""
        if inspect.iscoroutinefunction(self._guard):
            who = await self._guard(request)
        else:
            who = await run_in_threadpool(self._guard, request)
            who = await who if inspect.isawaitable(who) else who
        if who is None:
            raise Problem(401, "UNAUTHENTICATED", "The application that this console is part of does not let you in.")
        if not isinstance(who, Principal) or not is_name(who.sub):
            wanted = f"a Principal, named in 1 to {SUB_LENGTH_MAX} printable characters, or None"
            raise BadDeclaration(f"The console's guard must return {wanted}; it returned {type(who).__name__}.")
        if request.method not in SAFE and not _is_of_our_page(request):
            raise Problem(403, "FORBIDDEN", "A change must come from the console's page, with its own header.")
        return who

    async def _open_web(self) -> FastAPI:
        """The application, opened once in an event loop. If the database is away the next request tries again."""
        loop = asyncio.get_running_loop()
        if self._opening is None or self._loop is not loop:
            self._loop, self._opening = loop, loop.create_task(self._open())
        opening = self._opening
        try:
            return await asyncio.shield(opening)
        except (StoreError, SchemaMismatch) as error:
            if self._opening is opening:
                self._opening = None
            raise Problem(503, "NOT_READY", redact_text(str(error)), headers={"Retry-After": "5"}) from None

    async def _open(self) -> FastAPI:
        settings = self._settings or read(Settings, os.environ)
        if self._database is not None:
            settings = replace(settings, database_url=self._database)
        name = ",".join(app.name for app in self._apps) or "jobs"
        system = System(name, name, (), lambda env: self._apps[0])
        opened = [OpenSystem(system, open_kernel(settings, self._apps), {})]
        async with AsyncExitStack() as stack:
            stack.push_async_callback(close_systems, opened)
            await check_schema(opened[0].kernel)
            web = assemble(settings, opened, HostAuth(), [ops.router, ops_live.router, pages.common, router])
            self._resources = stack.pop_all()
        return web

    async def _live(self, receive: Receive, send: Send) -> None:
        """The lifespan of an application that stands alone or is told of its host's."""
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return


def _is_page(request: Request) -> bool:
    return request.method == "GET" and "text/html" in request.headers.get("accept", "")


def _is_of_our_page(request: Request) -> bool:
    return HEADER in request.headers and request.headers.get("sec-fetch-site", "same-origin") == "same-origin"

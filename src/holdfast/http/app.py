"""The HTTP application: every open system's routes, and what all of them share.

It starts no worker: `holdfast up` runs those beside it, `holdfast serve` leaves them to other processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Request

import holdfast
from holdfast.http import (
    callbacks,
    docs,
    health,
    metrics,
    oidc,
    ops,
    ops_live,
    pages,
    playground,
    problem,
    tickets,
)
from holdfast.http.answers.acts import TicketIssued
from holdfast.http.answers.documented import documented
from holdfast.http.auth import Auth, Authenticates, Principal, known_roles, require
from holdfast.http.buckets import Callers
from holdfast.http.flat import lay
from holdfast.http.guard import Guard, Web
from holdfast.kernel.questions.explain import iso
from holdfast.operator.desk import Desk
from holdfast.settings import Settings
from holdfast.system import OpenSystem

ANYONE = require()
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": "A problem with a stable `code`", "content": {problem.MEDIA_TYPE: {}}}
    for status in ("4XX", "5XX")
}


def create_app(
    settings: Settings, systems: Sequence[OpenSystem], *, to_break: playground.Playground | None = None
) -> FastAPI:
    """The application for these systems. Tickets live in the first one's store. `to_break`: what may be broken on its
    front page; without it there is no such route."""
    # First the systems' own, because routes are tried in order: what users ask for most is found soonest.
    own = [each.system.routes(each.kernel, each.env) for each in systems if each.system.routes is not None]
    common = [callbacks.router, docs.router, health.router, metrics.router, ops.router, ops_live.router]
    if to_break is not None:
        common.append(playground.router)
    app = assemble(
        settings,
        systems,
        Auth(settings, known_roles(each.system for each in systems)),
        [*own, shared, *common, oidc.router, pages.common, pages.router, pages.system_pages(systems)],
    )
    app.state.playground = to_break
    return app


def assemble(
    settings: Settings, systems: Sequence[OpenSystem], auth: Authenticates, routers: Sequence[APIRouter]
) -> FastAPI:
    """An application of these routes, with what all of them share.

    Setting `app.state.stopping` ends the open event streams within a second, so that a shutdown need not wait."""
    app = Web(
        title="Holdfast",
        version=holdfast.__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
    )
    app.state.auth = auth
    app.state.callers = Callers(settings)
    app.state.oidc = oidc.OidcProvider(settings)
    app.state.settings = settings
    app.state.systems = tuple(systems)
    app.state.desk = Desk(app.state.systems)
    app.state.stopping = asyncio.Event()
    problem.install(app, [one.system.problems for one in systems if one.system.problems is not None])
    lay(app, routers, PROBLEMS)
    app.add_middleware(Guard)
    return app


shared = APIRouter()


@shared.post("/api/tickets", status_code=201, tags=["tickets"], response_model=documented(TicketIssued))
async def issue_ticket(request: Request, who: Annotated[Principal, ANYONE]) -> dict[str, Any]:
    """A single-use ticket, good for 30 seconds, with which an EventSource opens a stream: `?ticket=`."""
    ticket, expires_at = await tickets.issue(request.app.state.systems[0].kernel, who.sub, frozenset(who.roles))
    return {"ticket": ticket, "expiresAt": iso(expires_at)}

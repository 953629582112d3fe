"""Every route of an application in one list, each built once.

The framework looks for a request's route twice in every router that was included, and asks each time whether any of
them has changed: a tenth of a POST's CPU. It also builds every included route anew for every application: a second of
CPU at each start. So routers are laid flat where they are declared, and an application takes their routes as they are.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute, iter_route_contexts

_DECLARED = tuple(inspect.signature(APIRoute.__init__).parameters.keys() - {"self"})
"""What a route is built from. A route remembers each by the same name."""


def flatten(router: APIRouter) -> APIRouter:
    """Replace the routers that this one includes by their routes, in the same order, as if declared on it."""
    routes = list(router.routes)
    router.routes.clear()
    for declared in routes:
        for context in iter_route_contexts([declared]):
            route = context.original_route
            if route is not declared and isinstance(route, APIRoute):
                route = type(route)(**{name: getattr(context, name) for name in _DECLARED})
            router.routes.append(route)
    return router


def lay(app: FastAPI, routers: Iterable[APIRouter], responses: Mapping[int | str, dict[str, Any]]) -> None:
    """Add all routes of these routers to the application. Each may answer with `responses` too, in the document."""
    for router in routers:
        for route in flatten(router).routes:
            if isinstance(route, APIRoute):
                route.responses = {**responses, **route.responses}
            app.router.routes.append(route)

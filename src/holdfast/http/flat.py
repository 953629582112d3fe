"""Every route of an application in one list.

The framework looks for a request's route twice in every router that was included, and asks each time whether any of
them has changed: a tenth of a POST's CPU. When an application is whole its routes are laid side by side, in the same
order, as if each had been declared on the application itself.
"""

from __future__ import annotations

import inspect

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute, iter_route_contexts

_DECLARED = tuple(inspect.signature(APIRouter.add_api_route).parameters.keys() - {"self", "route_class_override"})
"""What a route is declared with. A route remembers each by the same name."""


def flatten(app: FastAPI) -> None:
    """Replace the routers that this application includes by their routes. What is included later stays a router."""
    contexts = list(iter_route_contexts(app.router.routes))
    app.router.routes.clear()
    for context in contexts:
        if isinstance(context.original_route, APIRoute):
            declared = {name: getattr(context, name) for name in _DECLARED}
            app.router.add_api_route(**declared, route_class_override=type(context.original_route))
        else:
            app.router.routes.append(context.original_route)

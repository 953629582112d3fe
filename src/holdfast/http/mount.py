"""The console below a path of your own application, behind your own login.

    app.mount("/jobs", holdfast.console(shop, guard=my_guard))

`my_guard(request)` says who asks: a `Principal` with the role `operator`, or None for whoever may not enter. Nothing of
the web is imported before `console` is called.

Why so: docs/decisions/0031-the-console-is-a-guest.md
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from holdfast.errors import extras_named
from holdfast.http.principal import Principal
from holdfast.kernel.app import App
from holdfast.settings import Settings

if TYPE_CHECKING:
    from starlette.requests import Request

    from holdfast.http.hosted import HostedConsole

    Guard = Callable[[Request], Principal | Awaitable[Principal | None] | None]


def console(
    *apps: App,
    guard: Guard,
    database: str | None = None,
    sign_in: str | None = None,
    settings: Settings | None = None,
) -> HostedConsole:
    """The console as an ASGI application, to be mounted below any path of another.

    `guard` is asked at every request, and a `def` is run in a thread. `database` is the URL of the jobs; unsaid, it is
    that of the `settings`, which are read from the environment. Without `apps` everything in the database is shown,
    but what needs their code (correcting an input, limits of providers) is refused. `sign_in` is where the host signs
    people in: a browser that the guard refuses is sent there.

    The database is opened at the first request, never migrated, and closed by `await console.close()`."""
    with extras_named():
        from holdfast.http.hosted import HostedConsole
    return HostedConsole(apps, guard, database=database, sign_in=sign_in, settings=settings)

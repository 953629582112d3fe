"""Holdfast in a Django project.

    INSTALLED_APPS = ["holdfast.contrib.django", "django.contrib.admin", ...]
    HOLDFAST = {"APP": "shop.jobs:app", "CONSOLE_URL": "/jobs/"}

    with transaction.atomic():
        order.save()
        enqueue(connection, PlaceOrder, order.pk)      # of django.db: no on_commit, and a rollback leaves nothing

`manage.py holdfast worker` (and every other command of `holdfast`) runs with the project's app and database.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from holdfast.errors import SettingsError
from holdfast.http.principal import Principal

if TYPE_CHECKING:
    from starlette.requests import Request

KNOWN = ("APP", "CONSOLE_URL", "DATABASE")


def project_settings() -> dict[str, str]:
    """What the project says in `HOLDFAST`: `APP`, the alias of its `DATABASE`, the `CONSOLE_URL`."""
    from django.conf import settings

    given: Mapping[str, str] = getattr(settings, "HOLDFAST", {})
    unknown = sorted(set(given) - set(KNOWN))
    if unknown:
        raise SettingsError([f"There is no setting HOLDFAST['{unknown[0]}']; known: {', '.join(KNOWN)}."])
    return dict(given)


def database_url(alias: str | None = None) -> str:
    """The URL of a database of `DATABASES`, so that workers and console use the one that the project uses."""
    from django.db import connections

    alias = alias or project_settings().get("DATABASE", "default")
    config: dict[str, Any] = connections[alias].settings_dict
    engine = str(config["ENGINE"])
    if engine.endswith("sqlite3"):
        return f"sqlite:///{config['NAME']}"
    if "postg" not in engine:
        raise SettingsError([f"DATABASES['{alias}'] is {engine}; Holdfast works on SQLite and PostgreSQL."])
    return _postgres_url(config)


def _postgres_url(config: Mapping[str, Any]) -> str:
    user = quote(str(config.get("USER") or ""), safe="")
    password = f":{quote(str(config['PASSWORD']), safe='')}" if config.get("PASSWORD") else ""
    host, port = str(config.get("HOST") or ""), config.get("PORT")
    query = {"host": host} if host.startswith("/") else {}  # a folder with the server's socket
    if query and port:
        query["port"] = str(port)
    place = "" if query else f"{host or 'localhost'}{f':{port}' if port else ''}"
    address = f"postgresql://{user}{password}{'@' if user else ''}{place}/{quote(str(config['NAME']), safe='')}"
    return f"{address}?{urlencode(query)}" if query else address


def staff_guard(request: Request) -> Principal | None:
    """A guard for a mounted console: staff who are signed in to this project, by the session cookie of the request."""
    from importlib import import_module

    from django.conf import settings
    from django.contrib.auth import get_user
    from django.db import close_old_connections
    from django.http import HttpRequest

    key = request.cookies.get(settings.SESSION_COOKIE_NAME)
    if key is None:
        return None
    asked = HttpRequest()
    asked.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    close_old_connections()  # this thread serves no request of Django's, which would do it
    try:
        user = get_user(asked)
        if not (user.is_active and user.is_staff):
            return None
        return Principal(user.get_username(), {"operator"})
    finally:
        close_old_connections()

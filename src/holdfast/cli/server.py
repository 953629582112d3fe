"""The server that `--url` names, for the command that runs. What is asked of it is in `remote`."""

from __future__ import annotations

from contextvars import ContextVar
from typing import NamedTuple
from urllib.parse import urlsplit

import typer

URL_VARIABLE, TOKEN_VARIABLE = "HOLDFAST_URL", "HOLDFAST_TOKEN"


class RemoteServer(NamedTuple):
    url: str
    token: str


_SERVER: ContextVar[RemoteServer | None] = ContextVar("holdfast_server", default=None)


def choose_server(url: str | None, token: str | None) -> None:
    """Remember the server that the command line names, for the command below; without one, none."""
    _SERVER.set(None)
    if url is None:
        return
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise typer.BadParameter(f"--url must be like https://jobs.example.org, without user, query or fragment: {url}")
    if not token:
        raise typer.BadParameter(f"--url needs a token: --token, or {TOKEN_VARIABLE} (`holdfast token` makes one).")
    _SERVER.set(RemoteServer(url.rstrip("/"), token))


def chosen_server() -> RemoteServer | None:
    """The server of the command that runs, if it names one."""
    return _SERVER.get()

"""Runs the web server beside the duties of its systems, in one event loop, until told to stop."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from holdfast.engines.collecting import collect_seldom
from holdfast.engines.run import Duties, await_schema, prepare, run
from holdfast.engines.stopping import stop_on_signals
from holdfast.engines.worker import Worker
from holdfast.errors import SchemaMismatch, SettingsError, StoreError, StoreReadOnly, StoreUnavailable
from holdfast.http.app import create_app
from holdfast.http.auth import known_roles, token_for
from holdfast.http.metrics import PrometheusWatch
from holdfast.http.playground import Playground, may_be_broken
from holdfast.http.server import connection_limits, limited_protocol
from holdfast.kernel.app import App
from holdfast.kernel.loop import pause, unless_stopped
from holdfast.kernel.observe.watch import JsonFormatter
from holdfast.main import close_systems, installed_names, open_systems
from holdfast.operator.reachable import watch_databases
from holdfast.playground import postcards
from holdfast.playground.book import Book
from holdfast.playground.sabotage import Sabotage
from holdfast.settings import Settings
from holdfast.system import OpenSystem, System

ANSWER_S, SHOW_AGAIN_S = 1.0, 5.0
REQUESTS_S = 5
"""How long requests and streams under way may take after the stop; less if the grace is."""


async def serve_systems(
    settings: Settings,
    env: Mapping[str, str],
    names: Sequence[str] | None,
    own: Sequence[App],
    duties: Duties,
    *,
    banner: bool,
    databases: Mapping[str, str] | None = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C; then stop claiming, finish what is in flight, and close the databases last."""
    if banner:
        _log_to_file(settings)
    with stop_on_signals(duties.grace_s) as stop:
        listening = _listening(settings)
        is_read_only = not duties.any()
        sabotage = _sabotage(settings, names, own) if banner and may_be_broken(settings) else None
        opened = await open_systems(
            settings,
            env,
            names,
            own,
            watch=PrometheusWatch(),
            to_look=is_read_only,
            databases=databases,
            extra=_postcards(sabotage) if sabotage is not None else (),
        )
        showing: list[asyncio.Task[None]] = []
        try:
            if is_read_only:
                await unless_stopped(stop, begin_to_show(opened, stop, showing))
            for one in opened if not is_read_only else ():
                await unless_stopped(stop, prepare(one.kernel))
            if stop.is_set():
                return
            if sabotage is not None:
                sabotage.attach(opened)
            app = create_app(settings, opened, to_break=_playground(sabotage, opened))
            server = _server(app, settings, duties.grace_s)
            with collect_seldom(duties.concurrency):
                async with asyncio.TaskGroup() as group:
                    for one in opened:
                        run_worker = Worker.run if sabotage is None else partial(sabotage.run_worker, one.name)
                        group.create_task(run(one.kernel, one.duties(duties), stop, run_worker=run_worker))
                    group.create_task(server.serve(sockets=[listening]))
                    group.create_task(watch_databases(opened, stop))
                    if banner:
                        print_banner(settings, opened)
                    await stop.wait()
                    app.state.stopping.set()
                    server.should_exit = True
        finally:
            for each in showing:
                each.cancel()
            listening.close()
            await close_systems(opened)
            if sabotage is not None:
                sabotage.book.close()


async def begin_to_show(opened: Sequence[OpenSystem], stop: asyncio.Event, showing: list[asyncio.Task[None]]) -> None:
    """Return once every database has answered, or some have and the others had a second to: those are waited for on the
    side (`showing`). Raises where a schema does not fit, or where no database can be reached."""
    tasks = {asyncio.create_task(await_schema(one.kernel)): one for one in opened}
    showing.extend(tasks)
    _, late = await asyncio.wait(tasks, timeout=ANSWER_S)
    meanwhile = "it is waited for" if len(tasks) == 1 else "it is waited for, and the others are shown meanwhile"
    for task in late:
        print(
            f"The database of '{tasks[task].name}' has not answered within {ANSWER_S:g} s; {meanwhile}.",
            file=sys.stderr,
        )
    while late and all(task in late or _is_away(task) for task in tasks):
        _, late = await asyncio.wait(late, return_when=asyncio.FIRST_COMPLETED)
    away = [task for task in tasks if task.done() and _is_away(task)]
    if len(away) == len(tasks):
        away[0].result()
    for task in tasks:
        if task.done() and task not in away:
            task.result()
    showing.extend(asyncio.create_task(show_later(task, tasks[task], stop)) for task in [*late, *away])


def _is_away(task: asyncio.Task[None]) -> bool:
    return isinstance(task.exception(), StoreUnavailable | StoreReadOnly)


async def show_later(first: asyncio.Task[None], one: OpenSystem, stop: asyncio.Event) -> None:
    """Wait for a database as long as this process runs. A schema that does not fit is logged too, and looked
    at again: it may be migrated at any time."""
    task = first
    while True:
        try:
            return await task
        except (StoreError, SchemaMismatch) as error:
            one.kernel.watch.log("store.unreachable", system=one.name, error=str(error))
            await pause(stop, SHOW_AGAIN_S)
            task = asyncio.create_task(await_schema(one.kernel))


def _sabotage(settings: Settings, names: Sequence[str] | None, own: Sequence[App]) -> Sabotage:
    """What lets a visitor of the front page break things. Where nothing was chosen to run, there are postcards too."""
    is_whole = not names and not own
    book = Book(Path(settings.data_dir) / "playground.db")
    return Sabotage(book, frozenset({postcards.NAME}) if is_whole else frozenset())


def _playground(sabotage: Sabotage | None, opened: Sequence[OpenSystem]) -> Playground | None:
    offers = frozenset(one.name for one in opened) - installed_names()
    return None if sabotage is None else Playground(sabotage, opened, offers)


def _postcards(sabotage: Sabotage) -> list[System]:
    if postcards.NAME not in sabotage.own_books:
        return []
    title, url = "Postcards: something to break", "POSTCARDS_DATABASE_URL"
    return [System(postcards.NAME, title, url, lambda env: postcards.postcards_app(sabotage.book))]


class _ServerBesideDuties(uvicorn.Server):
    """uvicorn without its own signal handling: signals are ours, so that jobs in flight are finished first."""

    def install_signal_handlers(self) -> None:
        pass

    def capture_signals(self) -> object:  # type: ignore[override]
        from contextlib import nullcontext

        return nullcontext()


def _server(app: FastAPI, settings: Settings, grace_s: float) -> _ServerBesideDuties:
    limits = connection_limits(settings)
    config = uvicorn.Config(
        app,
        http=limited_protocol(limits),
        ws="none",
        backlog=limits.backlog,
        timeout_keep_alive=limits.keep_alive_s,  # type: ignore[arg-type]  # a timer's seconds, whole or not
        forwarded_allow_ips=settings.trusted_proxies,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=max(1, min(REQUESTS_S, int(grace_s))),
    )
    return _ServerBesideDuties(config)


def _listening(settings: Settings) -> socket.socket:
    """The socket, bound before anything is opened: whoever comes early waits a moment, and a taken port is told."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # With its protocol, by which asyncio sees that it is TCP and lets no answer wait for the last one's receipt.
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(2_048)
    except OSError as error:
        why = error.strerror or str(error)
        advice = "choose another with --port or HOLDFAST_PORT, or stop what has it"
        raise SettingsError([f"Cannot listen on {settings.host}:{settings.port} ({why}); {advice}."]) from None
    return listening


class _LogFile(logging.FileHandler):
    """A file that cannot be written is said so once, in a sentence; its lines are lost."""

    _is_lost = False

    def handleError(self, record: logging.LogRecord) -> None:
        if not self._is_lost:
            self._is_lost = True
            print(f"The log {self.baseFilename} cannot be written now: {sys.exc_info()[1]}.", file=sys.stderr)


def _log_to_file(settings: Settings) -> None:
    folder = Path(settings.data_dir)
    folder.mkdir(parents=True, exist_ok=True)
    handler = _LogFile(folder / "holdfast.log")
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=settings.log_level, handlers=[handler], force=True)


def print_banner(settings: Settings, opened: Sequence[OpenSystem]) -> None:
    address = f"http://{settings.host}:{settings.port}"
    lines = ["", f"  Holdfast is up at {address}", ""]
    lines += [f"    {one.system.title}" for one in opened]
    lines += [
        "",
        f"  Sign in:  {address}/login{_way_in(settings, opened)}",
        f"  Console:  {address}/console      API: {address}/docs",
        f"  Data:     {settings.data_dir}   Log: {Path(settings.data_dir) / 'holdfast.log'}",
        "",
        "  Stop with Ctrl-C; everything accepted is kept.",
        "",
    ]
    print("\n".join(lines), flush=True)


def _way_in(settings: Settings, opened: Sequence[OpenSystem]) -> str:
    """A token in the link, but only where the secret was made by this data folder: a secret that somebody gave, or
    keys from elsewhere, make a deployment that others share, and there nobody gets in without a token of their own."""
    if settings.jwt_secret is not None or settings.jwks_url is not None:
        return ""
    return f"#{token_for(settings, 'you', known_roles(each.system for each in opened))}"

"""How the operator's commands reach the databases and print what they find."""

from __future__ import annotations

import inspect
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, NoReturn, ParamSpec, TypeVar

import typer

from holdfast.cli.server import chosen_server
from holdfast.cli.terminal import printable, printable_within

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from holdfast.kernel.kernel import Kernel
    from holdfast.operator.desk import Desk
    from holdfast.system import OpenSystem

T = TypeVar("T")
P = ParamSpec("P")
WATCH_S = 2.0
ANSWER_S = 5.0
"""A database that only has to be named may take so long to answer."""


class Where(NamedTuple):
    """Which systems a command is for, and whether it only looks: to look changes no schema, and asks the replicas where
    there are any. With `names_away`, a database that does not answer is named and ends nothing."""

    systems: list[str] | None = None
    apps: list[str] | None = None
    to_look: bool = False
    names_away: bool = False


def look(systems: list[str] | None, apps: list[str] | None, *, names_away: bool = False) -> Where:
    return Where(systems, apps, to_look=True, names_away=names_away)


def act(systems: list[str] | None, apps: list[str] | None) -> Where:
    return Where(systems, apps)


def finite(value: float | None) -> float | None:
    """An option's number; NaN and infinity are refused, and what becomes infinity a line further."""
    from holdfast.settings.values import NUMBER_MAX

    if value is not None and not abs(value) <= NUMBER_MAX:
        raise typer.BadParameter(f"It must be a finite number, at most {NUMBER_MAX:,}.")
    return value


def at_desk(where: Where, verb: Callable[Concatenate[Desk, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a verb of the desk answers: on the databases, which are opened, checked and closed whatever happens; or at
    the server that `--url` names. Ids may be given by their beginning."""
    import asyncio

    from holdfast.cli.remote import ask_server
    from holdfast.errors import HoldfastError

    try:
        server = chosen_server()
        if server is not None:
            answer: T = ask_server(server, where.systems, where.apps, verb, args, kwargs)
            return answer
        return asyncio.run(_on_databases(where, verb, args, kwargs))
    except HoldfastError as error:
        fail(str(error))


def on_kernel(system: str, act: Callable[[Kernel], Awaitable[T]]) -> T:
    """For the commands of a system: act on its kernel; a refusal is one sentence on standard error and exit code 1."""

    async def on_its_own(desk: Desk) -> T:
        return await act(desk.systems[0].kernel)

    return at_desk(Where([system]), on_its_own)


async def _on_databases(
    where: Where, verb: Callable[..., Awaitable[T]], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> T:
    import logging

    from holdfast.main import close_systems, load_app, open_systems
    from holdfast.operator.desk import Desk
    from holdfast.operator.ids import complete_ids
    from holdfast.settings import Settings, read

    own = [load_app(path) for path in where.apps or ()]
    settings = read(Settings, os.environ)
    logging.getLogger("aiormq").addHandler(logging.NullHandler())  # what it says of a broker is said by the notice
    opened = await open_systems(settings, os.environ, where.systems, own, to_look=where.to_look)
    try:
        away: list[OpenSystem] | None = [] if where.names_away else None
        fit = await with_tables(opened, chosen=bool(where.systems or where.apps), away=away)
        desk = Desk(fit, away or ())
        given = inspect.signature(verb).bind(desk, *args, **kwargs)
        await complete_ids(desk, given.arguments)
        return await verb(*given.args, **given.kwargs)
    finally:
        await close_systems(opened)


async def with_tables(
    opened: Sequence[OpenSystem], *, chosen: bool, away: list[OpenSystem] | None = None
) -> list[OpenSystem]:
    """Those whose databases fit this code; one that does not is a `SchemaMismatch`. Unless the systems were `chosen` by
    name, those that were never used here are left out, with a word on standard error. Into `away` go those whose
    databases do not answer; without it that is an error."""
    import asyncio

    from holdfast.engines.run import SHOW
    from holdfast.errors import SchemaMismatch, StoreUnavailable
    from holdfast.kernel.loop import AWAITED
    from holdfast.kernel.upkeep.schema import check_schema

    fit, empty = [], []
    for one in opened:
        try:
            async with asyncio.timeout(None if away is None else ANSWER_S):
                if not chosen and not await one.kernel.store.installed():
                    empty.append(one)
                else:
                    await check_schema(one.kernel)
                    fit.append(one)
        except (StoreUnavailable, TimeoutError):
            if away is None:
                raise
            one.kernel.duties[SHOW] = AWAITED  # it was asked, and is not asked again
            away.append(one)
    if not fit and not away:
        asked = ", ".join(one.name for one in empty)
        words = f"No database here has Holdfast tables (asked for: {asked})"
        raise SchemaMismatch(f"{words}; run holdfast migrate, or name your own app with --app.")
    if empty:
        names = ", ".join(one.name for one in empty)
        typer.echo(f"Left out, for want of tables (holdfast migrate makes them): {names}.", err=True)
    return fit


def show_items(
    where: Where,
    columns: list[str],
    as_json: bool,
    watch: bool,
    verb: Callable[Concatenate[Desk, P], Awaitable[dict[str, Any]]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> None:
    """One of the desk's lists, as a program gets it over HTTP too."""
    show(lambda: at_desk(where, verb, *args, **kwargs), lambda found: draw_rows(found, columns), as_json, watch)


def show_rows(ask: Callable[[], list[dict[str, Any]]], columns: list[str], as_json: bool) -> None:
    """A list that is no page of the desk's, in the same shape."""
    show(lambda: {"items": ask()}, lambda found: draw_rows(found, columns), as_json)


def draw_rows(found: dict[str, Any], columns: list[str], none: str = "Nothing.") -> RenderableType:
    """A table for a person. Rows of several systems say whose they are."""
    from rich.text import Text

    from holdfast.cli.table import table_of

    rows = found["items"]
    whose = ["system"] if len({item["system"] for item in rows if "system" in item}) > 1 else []
    return table_of(rows, whose + columns) if rows else Text(none)


def show(ask: Callable[[], T], draw: Callable[[T], RenderableType], as_json: bool, watch: bool = False) -> None:
    """Ask once and print; with `watch`, again every two seconds until Ctrl-C, which is no error.

    A program that reads gets one line of JSON each time; a terminal is drawn over."""
    from rich.console import Console
    from rich.live import Live

    console = Console()
    if not watch:
        _print(console, ask(), draw, as_json)
        return
    with suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False) as live:
        while True:
            found = ask()
            if console.is_terminal and not as_json:
                live.update(draw(printable_within(found)), refresh=True)
            else:
                _print(console, found, draw, as_json)
            time.sleep(WATCH_S)


def _print(console: Console, found: T, draw: Callable[[T], RenderableType], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(found, default=str))
        sys.stdout.flush()  # whoever reads a pipe wants each line when it is there
    else:
        console.print(draw(printable_within(found)))


def say(sentence: str, as_json: bool, /, **body: object) -> None:
    """What was done: a sentence for a person, an object for a program."""
    typer.echo(json.dumps(body) if as_json else printable(sentence))


def carry_out(
    where: Where,
    as_json: bool,
    sentence: str,
    verb: Callable[Concatenate[Desk, P], Awaitable[dict[str, Any]]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> None:
    """Do what a verb of the desk does, and say so; the sentence may name what the verb answers."""
    done = at_desk(where, verb, *args, **kwargs)
    say(sentence.format(**done), as_json, **done)


def fail(sentence: str) -> NoReturn:
    typer.echo(printable(sentence), err=True)
    raise typer.Exit(1)

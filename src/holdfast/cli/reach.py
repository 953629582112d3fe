"""How the operator's commands reach the databases and print what they find."""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn, TypeVar, cast

import typer
from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast.errors import HoldfastError, SchemaMismatch
from holdfast.kernel.schema import check_schema
from holdfast.main import close_systems, load_app, open_systems
from holdfast.operator.desk import Desk
from holdfast.settings import Settings, read
from holdfast.system import OpenSystem

T = TypeVar("T")
Items = list[dict[str, Any]]
PIPED_WIDTH = 240  # a program that reads a table wants whole cells
WATCH_S = 2.0


def finite(value: float | None) -> float | None:
    """An option's number; NaN and infinity are refused."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter("It must be a finite number.")
    return value


def at_desk(
    names: list[str] | None, apps: list[str] | None, act: Callable[[Desk], Awaitable[T]], *, to_look: bool = False
) -> T:
    """Open the systems, check their databases, act, and close them whatever happens. To look changes no schema, and
    asks the replicas where there are any."""

    async def go() -> T:
        own = [load_app(path) for path in apps or ()]
        opened = await open_systems(read(Settings, os.environ), os.environ, names, own, to_look=to_look)
        try:
            return await act(Desk(await with_tables(opened, chosen=bool(names or apps))))
        finally:
            await close_systems(opened)

    try:
        return asyncio.run(go())
    except HoldfastError as error:
        fail(str(error))


async def with_tables(opened: Sequence[OpenSystem], *, chosen: bool) -> list[OpenSystem]:
    """Those whose databases fit this code; one that does not is a `SchemaMismatch`. Unless the systems were `chosen` by
    name, those that were never used here are left out, with a word on standard error."""
    fit, empty = [], []
    for one in opened:
        if not chosen and not await one.kernel.store.installed():
            empty.append(one)
        else:
            await check_schema(one.kernel)
            fit.append(one)
    if not fit:
        raise SchemaMismatch("There are no Holdfast tables here; run holdfast migrate.")
    if empty:
        names = ", ".join(one.name for one in empty)
        typer.echo(f"Left out, for want of tables (holdfast migrate makes them): {names}.", err=True)
    return fit


def show_items(
    names: list[str] | None,
    apps: list[str] | None,
    ask: Callable[[Desk], Awaitable[dict[str, Any]]],
    columns: list[str],
    as_json: bool,
    watch: bool = False,
) -> None:
    """The items of one of the desk's lists."""
    show_rows(lambda: cast(Items, at_desk(names, apps, ask, to_look=True)["items"]), columns, as_json, watch)


def show_rows(ask: Callable[[], list[dict[str, Any]]], columns: list[str], as_json: bool, watch: bool = False) -> None:
    """A list: a table for a person, an array for a program. Rows of several systems say whose they are."""

    def draw(rows: list[dict[str, Any]]) -> RenderableType:
        whose = ["system"] if any("system" in row for row in rows) else []
        return table_of(rows, whose + columns) if rows else Text("Nothing.")

    show(ask, draw, as_json, watch)


def show(ask: Callable[[], T], draw: Callable[[T], RenderableType], as_json: bool, watch: bool = False) -> None:
    """Ask once and print; with `watch`, again every two seconds until Ctrl-C, which is no error.

    A program that reads gets one line of JSON each time; a terminal is drawn over."""
    console = _console()
    if not watch:
        _print(console, ask(), draw, as_json)
        return
    with suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False) as live:
        while True:
            found = ask()
            if console.is_terminal and not as_json:
                live.update(draw(found), refresh=True)
            else:
                _print(console, found, draw, as_json)
            time.sleep(WATCH_S)


def _print(console: Console, found: T, draw: Callable[[T], RenderableType], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(found, default=str))
        sys.stdout.flush()  # whoever reads a pipe wants each line when it is there
    else:
        console.print(draw(found))


def say(sentence: str, as_json: bool, /, **body: Any) -> None:
    """What was done: a sentence for a person, an object for a program."""
    typer.echo(json.dumps(body) if as_json else sentence)


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=PIPED_WIDTH)


def table_of(rows: list[dict[str, Any]], columns: list[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in ("id", "state", "system"))
    for row in rows:
        # As Text: what a user or a provider wrote is no markup.
        table.add_row(*[Text(cell(column, row.get(column))) for column in columns])
    return table


def cell(column: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str) and (column.endswith("_at") or column in ("at", "not_before")):
        return value[:19].replace("T", " ")
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def fail(sentence: str) -> NoReturn:
    typer.echo(sentence, err=True)
    raise typer.Exit(1)

"""How the operator's commands reach the databases and print what they find."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, NoReturn, TypeVar
from uuid import UUID

import typer
from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast.errors import HoldfastError, SchemaMismatch
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.schema import check_schema
from holdfast.main import close_systems, load_app, open_systems
from holdfast.settings import Settings, read
from holdfast.stores.seam import Row, Tx
from holdfast.system import OpenSystem
from holdfast.tables import cases, jobs

T = TypeVar("T")
PIPED_WIDTH = 240  # a program that reads a table wants whole cells
WATCH_S = 2.0


def each(
    names: list[str] | None,
    apps: list[str] | None,
    go: Callable[[OpenSystem], Awaitable[list[dict[str, Any]]]],
    *,
    to_look: bool = True,
) -> list[dict[str, Any]]:
    """Ask every system, a replica of its database if there is one; each row says which one it comes from."""

    async def ask(opened: list[OpenSystem]) -> list[dict[str, Any]]:
        return [{"system": one.name, **row} for one in opened for row in await go(one)]

    return _in_all(names, apps, ask, to_look)


def on_systems(
    names: list[str] | None, apps: list[str] | None, act: Callable[[list[tuple[str, Kernel]]], Awaitable[T]]
) -> T:
    """Act in all systems together."""

    async def go(opened: list[OpenSystem]) -> T:
        return await act([(one.name, one.kernel) for one in opened])

    return _in_all(names, apps, go)


def _in_all(
    names: list[str] | None,
    apps: list[str] | None,
    go: Callable[[list[OpenSystem]], Awaitable[T]],
    to_look: bool = False,
) -> T:
    """Open the systems, check their databases, and close them whatever happens. To look changes no schema."""

    async def ask() -> T:
        own = [load_app(path) for path in apps or ()]
        opened = await open_systems(read(Settings, os.environ), os.environ, names, own, to_look=to_look)
        try:
            return await go(await with_tables(opened, chosen=bool(names or apps)))
        finally:
            await close_systems(opened)

    try:
        return asyncio.run(ask())
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


def on_job(
    names: list[str] | None, apps: list[str] | None, job_id: str, act: Callable[[Kernel], Awaitable[Any]]
) -> Any:
    async def has(kernel: Kernel) -> bool:
        async with kernel.store.reading() as tx:
            return await jobs.show(tx, job_id) is not None

    check_id(job_id, "job")
    return _on_first(names, apps, has, act, f"There is no job {job_id}.")


def on_case(names: list[str] | None, apps: list[str] | None, case_id: str, act: Callable[[Kernel], Awaitable[T]]) -> T:
    async def has(kernel: Kernel) -> bool:
        async with kernel.store.reading() as tx:
            return await cases.show(tx, case_id) is not None

    check_id(case_id, "dead letter")
    return _on_first(names, apps, has, act, f"There is no dead letter {case_id}.")


def on_provider(names: list[str] | None, apps: list[str] | None, name: str, act: Callable[[Kernel], Awaitable[T]]) -> T:
    """Act in the system that declares the provider; two that do must be told apart by `--system`."""

    async def has(kernel: Kernel) -> bool:
        return name in kernel.registry.providers

    async def declares(one: OpenSystem) -> list[dict[str, Any]]:
        return [{}] if await has(one.kernel) else []

    found = [row["system"] for row in each(names, apps, declares)]
    if len(found) > 1:
        fail(f"Several systems have a provider named '{name}'; add --system with one of {', '.join(found)}.")
    return _on_first(names, apps, has, act, f"No loaded app declares a provider named '{name}'.")


def check_id(text: str, noun: str) -> None:
    """Refuse what cannot be an id before a database does, in the words for one that is not there."""
    try:
        UUID(text)
    except ValueError:
        fail(f"There is no {noun} {text}.")


def _on_first(
    names: list[str] | None,
    apps: list[str] | None,
    has: Callable[[Kernel], Awaitable[bool]],
    act: Callable[[Kernel], Awaitable[T]],
    missing: str,
) -> T:
    """Act in the one system that has it."""
    done: list[T] = []

    async def go(one: OpenSystem) -> list[dict[str, Any]]:
        if not done and await has(one.kernel):
            done.append(await act(one.kernel))
        return []

    each(names, apps, go, to_look=False)
    if not done:
        fail(missing)
    return done[0]


def dicts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [dict(row) for row in rows]


def show_page(
    names: list[str] | None,
    apps: list[str] | None,
    read: Callable[[Tx], Awaitable[Sequence[Row]]],
    columns: list[str],
    as_json: bool,
    watch: bool = False,
    *,
    newest: str | None = None,
    limit: int | None = None,
) -> None:
    """What every system's database says, as one list: as it comes, or by the column `newest` (ids sort by time too) and
    no more than `limit`."""

    async def go(one: OpenSystem) -> list[dict[str, Any]]:
        async with one.kernel.store.reading() as tx:
            return dicts(await read(tx))

    def found() -> list[dict[str, Any]]:
        rows = each(names, apps, go)
        return rows if newest is None else sorted(rows, key=itemgetter(newest), reverse=True)[:limit]

    show_rows(found, columns, as_json, watch)


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


def say(sentence: str, as_json: bool, **body: Any) -> None:
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
    if column.endswith("_at") or column in ("at", "not_before"):
        return datetime.fromtimestamp(int(value) / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return str(value)


def fail(sentence: str) -> NoReturn:
    typer.echo(sentence, err=True)
    raise typer.Exit(1)

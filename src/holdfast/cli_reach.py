"""How the operator's commands reach the databases and print what they find."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from holdfast.errors import HoldfastError
from holdfast.kernel.kernel import Kernel
from holdfast.main import close_systems, load_app, open_systems
from holdfast.settings import Settings, read
from holdfast.stores.seam import Row
from holdfast.system import OpenSystem
from holdfast.tables import cases, jobs

T = TypeVar("T")


def each(
    names: list[str] | None,
    apps: list[str] | None,
    go: Callable[[OpenSystem], Awaitable[list[dict[str, Any]]]],
) -> list[dict[str, Any]]:
    """Ask every system; each row says which one it comes from."""

    async def ask() -> list[dict[str, Any]]:
        opened = await open_systems(read(Settings, os.environ), os.environ, names, [load_app(a) for a in apps or ()])
        try:
            rows = []
            for one in opened:
                await one.kernel.migrate()
                rows += [{"system": one.name, **row} for row in await go(one)]
            return rows
        finally:
            await close_systems(opened)

    try:
        return asyncio.run(ask())
    except HoldfastError as error:
        fail(str(error))


def on_job(
    names: list[str] | None, apps: list[str] | None, job_id: str, act: Callable[[Kernel], Awaitable[Any]]
) -> Any:
    async def has(kernel: Kernel) -> bool:
        async with kernel.store.reading() as tx:
            return await jobs.show(tx, job_id) is not None

    return _on_first(names, apps, has, act, f"There is no job {job_id}.")


def on_case(names: list[str] | None, apps: list[str] | None, case_id: str, act: Callable[[Kernel], Awaitable[T]]) -> T:
    async def has(kernel: Kernel) -> bool:
        async with kernel.store.reading() as tx:
            return await cases.show(tx, case_id) is not None

    return _on_first(names, apps, has, act, f"There is no dead letter {case_id}.")


def on_provider(names: list[str] | None, apps: list[str] | None, name: str, act: Callable[[Kernel], Awaitable[T]]) -> T:
    async def has(kernel: Kernel) -> bool:
        return name in kernel.registry.providers

    return _on_first(names, apps, has, act, f"No loaded app declares a provider named '{name}'.")


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

    each(names, apps, go)
    if not done:
        fail(missing)
    return done[0]


def dicts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [dict(row) for row in rows]


def show_rows(rows: list[dict[str, Any]], as_json: bool, columns: list[str]) -> None:
    if as_json:
        typer.echo(json.dumps(rows, default=str))
    elif not rows:
        typer.echo("Nothing.")
    else:
        show_table(rows, ["system", *columns])


def show_table(rows: list[dict[str, Any]], columns: list[str]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in ("id", "state", "system"))
    for row in rows:
        table.add_row(*[_cell(column, row.get(column)) for column in columns])
    Console().print(table, markup=False)


def _cell(column: str, value: Any) -> str:
    if value is None:
        return ""
    if column.endswith("_at") or column == "at":
        return datetime.fromtimestamp(int(value) / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return str(value)


def fail(sentence: str) -> NoReturn:
    typer.echo(sentence, err=True)
    raise typer.Exit(1)

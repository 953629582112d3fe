"""SQLite files with every table in place, and stores on them that do not wait for the disk.

Forty migrations, and a disk that every commit waits for, were most of a short test's time. Nothing here pulls the plug:
crashes are of processes, and what they wrote stays.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from holdfast.stores.clock import Clock
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.statement import Migration
from holdfast.tables.schema import KERNEL


def open_migrated(
    path: Path, clock: Clock | None, migrations: Sequence[Migration] = (), *, inline: bool = True
) -> SqliteStore:
    """A store on the file at `path`, which the first that opens it finds with the tables of the kernel and of these
    migrations, and no row in them."""
    if not path.exists():
        copy_migrated(path, migrations)
    store = SqliteStore(path, clock=clock, inline=inline)
    store._writer._execute("PRAGMA synchronous = OFF", None)
    return store


def copy_migrated(path: Path, migrations: Sequence[Migration] = ()) -> None:
    shutil.copy(_template((*KERNEL, *migrations)), path)


@cache
def _template(steps: tuple[Migration, ...]) -> Path:
    path = Path(_folder().name) / f"{hash(steps):x}.db"
    with ThreadPoolExecutor(1) as beside:  # whoever asks may run a loop of its own
        beside.submit(asyncio.run, _migrate(path, steps)).result()
    return path


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="holdfast-tables-")


async def _migrate(path: Path, steps: Sequence[Migration]) -> None:
    store = SqliteStore(path)
    await store.migrate(steps)
    await store.close()

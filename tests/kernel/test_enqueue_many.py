"""Many jobs in the caller's own transaction: all or none, each by its key once."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import aiosqlite
import psycopg
import pytest

from holdfast import App, Context, IdempotencyConflict, InvalidInput, Job, enqueue_many, stage
from holdfast.engines.worker import Worker
from holdfast.stores.clock import SystemClock
from tests.kernel.places import Place, close_all, rows

pytestmark = pytest.mark.spec("K18", "K1")
app = App("crowd")
COUNT = "SELECT COUNT(*) AS n FROM holdfast_jobs"


@app.job()
class Greet(Job[str]):
    @stage()
    async def greet(self, ctx: Context, name: str) -> str:
        return f"hello {name}"


def names(number: int) -> list[str]:
    return [f"guest {one}" for one in range(number)]


async def test_they_are_all_there_after_the_commit_and_run(place: Place) -> None:
    kernel = place.kernel(app, clock=SystemClock())
    if kernel.store.dialect == "sqlite":
        with sqlite3.connect(place.url) as connection:
            ids = enqueue_many(connection, Greet, names(2_500))
        connection.close()
    else:
        with psycopg.connect(place.url) as connection:
            ids = enqueue_many(connection, Greet, names(2_500))
    assert len(set(ids)) == 2_500
    assert (await rows(kernel.store, COUNT))[0]["n"] == 2_500
    await Worker(kernel).run_until_idle()
    done = await rows(kernel.store, COUNT + " WHERE state = 'succeeded'")
    assert done[0]["n"] == 2_500
    await close_all(place)


async def test_a_rollback_leaves_none_and_a_bad_one_writes_none(tmp_path: Path) -> None:
    from holdfast.kernel.kernel import Kernel, Registry
    from holdfast.stores.sqlite import SqliteStore

    kernel = Kernel(store=SqliteStore(tmp_path / "crowd.db"), registry=Registry([app]))
    await kernel.migrate()
    async with aiosqlite.connect(tmp_path / "crowd.db") as connection:
        pending = enqueue_many(connection, Greet, names(3))
        with pytest.raises(InvalidInput, match="await it"):
            _ = str(pending)
        assert len(await pending) == 3
        await connection.rollback()
        with pytest.raises(InvalidInput):
            await enqueue_many(connection, Greet, ["fine", 7])  # type: ignore[list-item]
        first = await enqueue_many(connection, Greet, names(3), key=str)
        assert await enqueue_many(connection, Greet, names(3), key=str) == first
        with pytest.raises(IdempotencyConflict):
            await enqueue_many(connection, Greet, ["another"], key=lambda _: "guest 1")
        await connection.commit()
    assert (await rows(kernel.store, COUNT))[0]["n"] == 3
    await kernel.store.close()

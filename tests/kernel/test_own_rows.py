"""The caller's own rows, the stage's result and further enqueues are one commit, behind the attempt's fence."""

from __future__ import annotations

import asyncio
import logging
import re
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from holdfast import App, Context, InvalidInput, Job, SyncContext, enqueue, stage
from holdfast.engines.worker import Worker
from holdfast.kernel import operate
from holdfast.testing import World
from tests.kernel.places import Deploy, Place, rows

app = App("ownrows")
INSERT = "INSERT INTO own_rows (text) VALUES ('paid')"
opening: list[Callable[[], Any]] = []
during: list[Callable[[], Any]] = []
runs: list[str] = []


@app.job()
class Follows(Job[str]):
    @stage()
    async def run(self, ctx: Context, text: str) -> None: ...


@app.job()
class Pays(Job[str]):
    @stage()
    async def pay(self, ctx: Context, text: str) -> int:
        runs.append("pay")
        async with opening[0]() as session, ctx.transaction(session) as commit:
            await write(session)
            await awaited(enqueue(session, Follows, text))
            for act in during:
                await act()
            commit.returns(17)
        return 4

    @stage()
    async def then(self, ctx: Context, text: str, pay: int) -> int:
        return pay + 1


@app.job()
class PaysInThread(Job[str]):
    @stage()
    def pay(self, ctx: SyncContext, text: str) -> int:
        with opening[0]() as session, ctx.transaction(session) as commit:
            execute_here(session)
            enqueue(session, Follows, text)
            commit.returns(17)
        return 4


async def awaited(answer: Any) -> Any:
    return answer if isinstance(answer, str) else await answer  # on a sync connection it is there already


def execute_here(session: Any) -> Any:
    statement = sqlalchemy.text(INSERT) if "sqlalchemy" in type(session).__module__ else INSERT
    return session.execute(statement)


async def write(session: Any) -> None:
    answer = execute_here(session)
    if asyncio.iscoroutine(answer) or hasattr(answer, "__await__"):
        await answer


def plain(make: Callable[[], Any]) -> Callable[[], Any]:
    """For an `async with`: a connection that is not awaited."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        session = make()
        try:
            yield session
        finally:
            session.close()

    return opened


def awaiting(make: Callable[[], Any]) -> Callable[[], Any]:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        session = await make()
        try:
            yield session
        finally:
            await session.close()

    return opened


@asynccontextmanager
async def async_session(url: str) -> AsyncIterator[AsyncSession]:
    engine = create_async_engine(url)
    async with AsyncSession(engine) as session:
        yield session
    await engine.dispose()


class CommitsByItself(sqlite3.Connection):
    """As one that was opened with `autocommit=True` is in Python 3.12: there `commit` and `rollback` do nothing."""

    autocommit = True

    def commit(self) -> None: ...
    def rollback(self) -> None: ...


def ways(place: Place) -> dict[str, Callable[[], Any]]:
    if place.dialect == "sqlite":
        engine = sqlalchemy.create_engine(f"sqlite:///{place.url}")
        return {
            "sqlite3": plain(lambda: sqlite3.connect(place.url)),
            "autocommit": plain(lambda: sqlite3.connect(place.url, isolation_level=None, factory=CommitsByItself)),
            "aiosqlite": awaiting(lambda: aiosqlite.connect(place.url)),
            "session": plain(lambda: Session(engine)),
        }
    bare = place.url.removeprefix("postgresql://")
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://{bare}", poolclass=sqlalchemy.NullPool)
    return {
        "asyncpg": awaiting(lambda: asyncpg.connect(place.url)),
        "psycopg": plain(lambda: psycopg.connect(place.url)),
        "async psycopg": awaiting(lambda: psycopg.AsyncConnection.connect(place.url)),
        "session": plain(lambda: Session(engine)),
        "async session": lambda: async_session(f"postgresql+asyncpg://{bare}"),
    }


def connected_here(place: Place) -> Callable[[], Any]:
    """For a plain `with`, in a thread."""

    @contextmanager
    def opened() -> Any:
        session: Any = sqlite3.connect(place.url) if place.dialect == "sqlite" else psycopg.connect(place.url)
        yield session
        session.close()

    return opened


@pytest.fixture
async def paying(deploy: Deploy, place: Place) -> AsyncIterator[World]:
    for notes in (opening, during, runs):
        notes.clear()
    world = await deploy(app)
    world.clock.advance(time.time() + 60 - world.clock.now_ms() / 1_000)  # `enqueue` goes by the time of day
    _alter(place, "CREATE TABLE own_rows (text TEXT)")
    yield world
    _alter(place, "DROP TABLE own_rows")


def _alter(place: Place, text: str) -> None:
    if place.dialect == "sqlite":
        connection: Any = sqlite3.connect(place.url)
    else:
        connection = psycopg.connect(place.url)
    connection.execute(text)
    connection.commit()
    connection.close()


async def kept(world: World) -> tuple[int, int]:
    """How many rows of the caller's there are, and how many further jobs."""
    (own,) = await rows(world.kernel.store, "SELECT COUNT(*) AS n FROM own_rows")
    (more,) = await rows(world.kernel.store, "SELECT COUNT(*) AS n FROM holdfast_jobs WHERE kind = 'ownrows.follows'")
    return own["n"], more["n"]


@pytest.mark.spec("K26")
async def test_all_or_nothing_with_every_library(paying: World, place: Place) -> None:
    """First a failure at the end of the block, which leaves nothing behind; then the commit of all."""
    for number, way in enumerate(ways(place).values(), 1):
        opening[:] = [way]

        async def fail() -> None:
            during.clear()
            raise OSError("at the end of the block")

        during[:] = [fail]
        job = await paying.enqueue(Pays, "x")
        await paying.work()
        assert await kept(paying) == (number - 1, number - 1), "nothing of it is there"
        (why,) = await rows(paying.kernel.store, "SELECT error FROM holdfast_jobs WHERE state = 'queued'")
        assert "at the end of the block" in why["error"], "what went wrong is the block's own error"
        await paying.run_until_idle()
        assert await kept(paying) == (number, number)
        assert await paying.results(job) == {"pay": "17", "then": "18"}
    assert runs.count("pay") == 2 * len(ways(place))


@pytest.mark.spec("K26")
@pytest.mark.parametrize("job_class", [Pays, PaysInThread])
async def test_what_ends_in_the_callers_commit_is_logged_and_counted_too(
    paying: World, place: Place, caplog: pytest.LogCaptureFixture, job_class: type[Job[str]]
) -> None:
    caplog.set_level(logging.INFO, "holdfast")
    opening[:] = [ways(place)["session"] if job_class is Pays else connected_here(place)]
    job = await paying.enqueue(job_class, "x")
    ended = await Worker(paying.kernel).run_until_idle()
    logged = [vars(record).get("holdfast", {}) for record in caplog.records]
    attempts = [line for line in logged if "duration_ms" in line]
    stages = [line["stage"] for line in attempts if line["job_id"] == job and 0 <= line["duration_ms"] < 60_000]
    assert stages == [each.name for each in job_class.__holdfast__.stages] and ended == len(attempts)


@pytest.mark.spec("K26")
@pytest.mark.parametrize("place_of_death, times", [("own_rows.after_commit", 1), ("own_rows.before_commit", 2)])
async def test_a_process_that_dies_after_the_commit_has_done_the_stage(
    paying: World, place: Place, place_of_death: str, times: int
) -> None:
    opening[:] = [next(iter(ways(place).values()))]
    job = await paying.enqueue(Pays, "x")
    paying.crash_at(place_of_death)
    if times == 2:
        await _crash_and_let_go(paying, place)
    await paying.run_until_idle()
    assert runs == ["pay"] * times and await kept(paying) == (1, 1)
    assert await paying.results(job) == {"pay": "17", "then": "18"}


async def _crash_and_let_go(world: World, place: Place) -> None:
    """A dead process's connection is gone; in this test it is only forgotten, so it is cut by hand."""
    sessions: list[Any] = []
    way = opening[0]

    @asynccontextmanager
    async def watched() -> AsyncIterator[Any]:
        async with way() as session:
            sessions.append(session)
            yield session

    opening[:] = [watched]
    await world.work()
    for session in sessions:
        session.terminate() if place.dialect == "postgres" else session.rollback()


@pytest.mark.spec("K26")
async def test_an_attempt_that_lost_its_job_writes_nothing_of_yours(paying: World, place: Place) -> None:
    """It may be lost before the block or, where there is more than one writer, inside of it."""
    for way in ways(place).values():
        job = await paying.enqueue(Pays, "x")

        async def lose(job: str = job) -> None:
            await operate.cancel(paying.kernel, job, "ann")

        @asynccontextmanager
        async def losing(way: Callable[[], Any] = way, lose: Callable[[], Any] = lose) -> AsyncIterator[Any]:
            await lose()
            async with way() as session:
                yield session

        inside = place.dialect == "postgres"
        opening[:], during[:] = [way if inside else losing], [lose] if inside else []
        await paying.run_until_idle()
        assert await paying.state(job) == "cancelled" and await kept(paying) == (0, 0)


@pytest.mark.spec("K26", "K23")
async def test_a_plain_def_commits_with_its_own_connection(paying: World, place: Place) -> None:
    opening[:] = [connected_here(place)]
    job = await paying.enqueue(PaysInThread, "x")
    await paying.run_until_idle()
    assert await paying.results(job) == {"pay": "17"} and await kept(paying) == (1, 1)


@pytest.mark.spec("K26")
async def test_a_transaction_that_was_begun_before_is_refused(paying: World, place: Place) -> None:
    """Else what was written before it would be committed without the fence."""
    way = next(iter(ways(place).values()))
    found: list[str] = []

    @asynccontextmanager
    async def begun() -> AsyncIterator[Any]:
        async with way() as session:
            await write_begin(session)
            try:
                yield session
            except InvalidInput as error:
                found.append(str(error))
                raise

    opening[:] = [begun]
    await paying.enqueue(Pays, "x")
    await paying.work()
    assert "has a transaction open already" in found[0] and await kept(paying) == (0, 0)


def without_a_transaction(place: Place) -> dict[str, Callable[[], Any]]:
    if place.dialect == "sqlite":
        engine = sqlalchemy.create_engine(f"sqlite:///{place.url}", isolation_level="AUTOCOMMIT")
        return {r"sqlalchemy\.Session is in autocommit": plain(lambda: Session(engine))}
    url = place.url.replace("postgresql:", "postgresql+psycopg:")
    engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.NullPool)
    return {
        r"psycopg\.Connection is in autocommit": plain(lambda: psycopg.connect(place.url, autocommit=True)),
        r"psycopg\.AsyncConnection is in autocommit": awaiting(
            lambda: psycopg.AsyncConnection.connect(place.url, autocommit=True)
        ),
        r"sqlalchemy\.Session is in autocommit": plain(lambda: Session(engine)),
        r"one connection, not an asyncpg\.Pool": lambda: asyncpg.create_pool(place.url, min_size=1, max_size=1),
    }


@pytest.mark.spec("K26")
async def test_what_commits_each_row_by_itself_is_refused_before_a_row_is_written(paying: World, place: Place) -> None:
    for told, way in without_a_transaction(place).items():
        opening[:] = [way]
        job = await paying.enqueue(Pays, "x")
        await paying.run_until_idle()
        (letter,) = await rows(paying.kernel.store, "SELECT error FROM holdfast_jobs WHERE id = :id", id=job)
        assert await kept(paying) == (0, 0) and re.search(told, letter["error"])


@pytest.mark.spec("K26")
async def test_a_connection_that_always_has_a_transaction_is_told_so(paying: World, place: Place) -> None:
    """`autocommit=False` of Python 3.12; it may have written what no fence would guard."""
    connection = sqlite3.connect(":memory:", factory=type("Within", (sqlite3.Connection,), {"autocommit": False}))
    connection.execute("BEGIN")
    opening[:] = [plain(lambda: connection)]
    job = await paying.enqueue(Pays, "x")
    await paying.run_until_idle()
    (letter,) = await rows(paying.kernel.store, "SELECT error FROM holdfast_jobs WHERE id = :id", id=job)
    told = "autocommit=False always has" if place.dialect == "sqlite" else "the database that Holdfast's tables are in"
    assert told in letter["error"]


async def write_begin(session: Any) -> None:
    answer = session.execute("BEGIN")
    if asyncio.iscoroutine(answer):
        await answer

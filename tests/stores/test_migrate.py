"""Migrations: from nothing, from where they are, from two processes at once, and never backwards."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import App, Context, Job, stage
from holdfast.engines import run as runner
from holdfast.engines.run import CONNECT_TRIES, prepare
from holdfast.engines.worker import Worker
from holdfast.errors import SchemaMismatch, StoreError, StoreStarting, StoreUnavailable
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.submit import submit
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.statement import Migration
from holdfast.tables.schema import KERNEL
from tests.kernel.places import DIALECTS, AnyStore, rows
from tests.services.child import free_ports

SSL_REQUEST = 80_877_103
NAMES = [step.name for step in KERNEL]
BOARD = Migration("board", 1, "CREATE TABLE board_notes (id /*id*/ PRIMARY KEY, seq BIGINT NOT NULL);\n")
MORE = Migration("board", 2, "ALTER TABLE board_notes ADD COLUMN body TEXT;\n")
BROKEN = Migration(
    "board", 2, "ALTER TABLE board_notes ADD COLUMN half TEXT;\nALTER TABLE nowhere ADD COLUMN x TEXT;\n"
)


@pytest.fixture(params=DIALECTS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database that nobody has migrated."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
    else:
        yield request.getfixturevalue("postgres_url")


def open_store(url: str) -> AnyStore:
    return PostgresStore(url) if url.startswith("postgres") else SqliteStore(url.removeprefix("sqlite:///"))


@pytest.mark.spec("K19")
async def test_an_empty_database_is_brought_forward_and_a_migrated_one_is_left_alone(url: str) -> None:
    store = open_store(url)
    assert await store.migrate(KERNEL) == NAMES
    assert await store.migrate(KERNEL) == []
    again = open_store(url)
    assert await again.migrate(KERNEL) == []
    assert await rows(again, "SELECT COUNT(*) AS n FROM holdfast_jobs_readable") == [{"n": 0}]
    await store.close()
    await again.close()


@pytest.mark.spec("K19")
async def test_a_system_brings_its_own_steps_and_later_ones_follow(url: str) -> None:
    store = open_store(url)
    kernel = Kernel(store=store, registry=Registry([App("board", migrations=[BOARD])]))
    assert await kernel.migrate() == [*NAMES, "board/001"]
    assert await store.migrate([BOARD, MORE, *KERNEL]) == ["board/002"]
    assert await rows(store, "SELECT body FROM board_notes") == []
    await store.close()


@pytest.mark.spec("K19")
async def test_a_step_that_fails_leaves_nothing_of_itself(url: str) -> None:
    store = open_store(url)
    await store.migrate([*KERNEL, BOARD])
    with pytest.raises(StoreError):
        await store.migrate([*KERNEL, BOARD, BROKEN])
    with pytest.raises(StoreError):
        await rows(store, "SELECT half FROM board_notes")
    assert await store.migrate([*KERNEL, BOARD, MORE]) == ["board/002"]
    await store.close()


@pytest.mark.spec("K19")
async def test_a_database_that_is_newer_than_the_code_is_refused_in_one_sentence(url: str) -> None:
    store = open_store(url)
    await store.migrate([*KERNEL, Migration("holdfast", 999, "CREATE TABLE from_the_future (x INTEGER);\n")])
    with pytest.raises(SchemaMismatch, match=r"'holdfast' schema is version 999.*upgrade Holdfast"):
        await store.migrate(KERNEL)
    await store.close()


MIGRATE = """
import asyncio, sys
sys.path[:0] = [{root!r}]
from tests.stores.test_migrate import open_store
from holdfast.tables.schema import KERNEL
async def main():
    store = open_store({url!r})
    print(len(await store.migrate(KERNEL)))
    await store.close()
asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.spec("K19")
def test_processes_that_migrate_at_once_do_it_once(url: str) -> None:
    root = str(Path(__file__).resolve().parents[2])
    code = MIGRATE.format(root=root, url=url)
    children = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    ended = [child.communicate(timeout=60) for child in children]
    assert [child.returncode for child in children] == [0] * 4, ended
    assert sum(int(out) for out, _ in ended) == len(NAMES)


@pytest.mark.spec("K19")
async def test_tasks_that_migrate_at_once_do_it_once(url: str) -> None:
    stores = [open_store(url) for _ in range(3)]
    applied = await asyncio.gather(*[store.migrate(KERNEL) for store in stores])
    assert sorted(name for steps in applied for name in steps) == NAMES
    for store in stores:
        await store.close()


@pytest.mark.spec("K19")
async def test_an_unreachable_postgres_is_named_without_its_password_and_given_up_at_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PostgreSQL only: a file cannot be unreachable."""
    monkeypatch.setattr(runner, "CONNECT_WAIT_S", 0.001)
    (port,) = free_ports(1)
    store = PostgresStore(f"postgresql://ann:s3cretpassw0rd@127.0.0.1:{port}/main")
    kernel = Kernel(store=store, registry=Registry([]))
    with pytest.raises(StoreUnavailable) as refused:
        await prepare(kernel)
    assert f"127.0.0.1:{port}" in str(refused.value) and "s3cret" not in str(refused.value)
    await store.close()


@pytest.mark.spec("K19", "K28")
async def test_a_server_that_recovers_is_waited_for_longer_than_an_absent_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL only. The server is a stranger of ours that says what PostgreSQL says while it recovers."""
    monkeypatch.setattr(runner, "CONNECT_WAIT_S", 0.001)
    monkeypatch.setattr(runner, "STARTING_TRIES", CONNECT_TRIES + 3)
    fields = b"SFATAL\0C57P03\0Mthe database system is starting up\0\0"
    asked = 0

    async def recovering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        length = int.from_bytes(await reader.readexactly(4), "big")
        if int.from_bytes((await reader.readexactly(length - 4))[:4], "big") == SSL_REQUEST:
            writer.write(b"N")
            length = int.from_bytes(await reader.readexactly(4), "big")
            await reader.readexactly(length - 4)
        asked += 1
        if asked == CONNECT_TRIES + 1:  # it falls over once more; that is no reason to give up
            writer.close()
            return
        writer.write(b"E" + (len(fields) + 4).to_bytes(4, "big") + fields)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(recovering, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        store = PostgresStore(f"postgresql://ann@127.0.0.1:{port}/main")
        with pytest.raises(StoreStarting, match="the database system is starting up"):
            await prepare(Kernel(store=store, registry=Registry([])))
        await store.close()
    assert asked > CONNECT_TRIES + 3


@pytest.mark.spec("K19")
async def test_a_database_that_comes_late_is_waited_for(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "CONNECT_WAIT_S", 0.001)
    store = open_store(url)
    tries = 0
    migrate = store.migrate

    async def late(steps: object, patience: object) -> list[str]:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise StoreUnavailable("not yet")
        return await migrate(KERNEL)

    store.migrate = late  # type: ignore[method-assign]
    assert await prepare(Kernel(store=store, registry=Registry([]))) == NAMES
    await store.close()


@pytest.mark.spec("K19")
async def test_a_later_step_runs_forward_while_work_goes_on(url: str) -> None:
    busy = App("busy", migrations=[BOARD])
    ran: asyncio.Queue[int] = asyncio.Queue()

    @busy.job()
    class Count(Job[int]):
        @stage()
        async def count(self, ctx: Context, number: int) -> int:
            ran.put_nowait(number)
            return number

    worker_store, other_store = open_store(url), open_store(url)
    kernel = Kernel(store=worker_store, registry=Registry([busy]))
    await kernel.migrate()
    stop = asyncio.Event()
    working = asyncio.create_task(Worker(kernel, concurrency=4).run(stop))
    for number in range(30):
        await submit(kernel, Count, number)
        if number == 15:
            assert await other_store.migrate([*KERNEL, BOARD, MORE]) == ["board/002"]
    async with asyncio.timeout(30):
        assert sorted([await ran.get() for _ in range(30)]) == list(range(30))
        stop.set()
        await working
    ended = "SELECT COUNT(*) AS n FROM holdfast_jobs WHERE state = 'succeeded'"
    assert await rows(other_store, ended) == [{"n": 30}]
    assert await rows(other_store, "SELECT body FROM board_notes") == []
    for store in (worker_store, other_store):
        await store.close()

"""The store seam: transactions, cancellation, readers, wake-ups, and errors in our own words."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from holdfast.errors import StoreBusy, StoreError, StoreFull, StoreUnavailable
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.seam import Tx
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.statement import _statement
from holdfast.tables import audit, events
from holdfast.tables.schema import KERNEL
from tests.kernel.places import AnyStore, Place, close_all, rows


async def note(tx: Tx, text: str) -> None:
    await audit.write(tx, "test", text, "note", None, 0)


BRIEF = """-- brief
INSERT INTO holdfast_audit (at, actor, action, subject) VALUES (0, 'test', :text, 'note')"""


async def brief_note(tx: Tx, text: str) -> None:
    """As `note`, by a statement that SQLite runs where it is asked for."""
    await tx.rows(_statement("brief", {None: BRIEF}), text=text)


async def notes(store: AnyStore) -> list[str]:
    return [row["action"] for row in await rows(store, "SELECT action FROM holdfast_audit ORDER BY seq")]


def threaded(place: Place) -> AnyStore:
    """The store as production opens it: SQLite in threads of its own."""
    made: AnyStore = PostgresStore(place.url) if place.dialect == "postgres" else SqliteStore(place.url)
    place.opened.append(made)
    return made


@pytest.mark.spec("K1", "K19")
async def test_a_transaction_that_raises_leaves_nothing(place: Place) -> None:
    store = threaded(place)
    with pytest.raises(ValueError):
        async with store.transaction() as tx:
            await note(tx, "gone")
            raise ValueError
    async with store.transaction() as tx:
        await note(tx, "kept")
    assert await notes(store) == ["kept"]
    await close_all(place)


@pytest.mark.spec("K19")
async def test_a_reader_sees_only_what_is_committed_and_waits_for_nobody(place: Place) -> None:
    store = threaded(place)
    async with store.transaction() as tx:
        await note(tx, "open")
        assert await notes(store) == []
    assert await notes(store) == ["open"]
    await close_all(place)


@pytest.mark.spec("K19")
@pytest.mark.parametrize("after_ms", [0, 1, 2, 3, 5, 8])
async def test_a_task_cancelled_anywhere_leaves_the_store_usable(place: Place, after_ms: int) -> None:
    store = threaded(place)

    async def write(number: int) -> None:
        async with store.transaction() as tx:
            await (note, brief_note)[number % 2](tx, f"a{number}")
            await brief_note(tx, f"b{number}")
        await notes(store)

    for number in range(12):
        task = asyncio.create_task(write(number))
        await asyncio.sleep(after_ms / 1_000)
        task.cancel()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    async with asyncio.timeout(5):
        async with store.transaction() as tx:
            await note(tx, "after")
        found = await notes(store)
    pairs = found[:-1]
    assert found[-1] == "after"
    assert [f"b{name[1:]}" for name in pairs[::2]] == pairs[1::2], "whole transactions only"
    await close_all(place)


@pytest.mark.spec("K19")
async def test_cancelling_the_wait_for_a_turn_holds_no_lock(place: Place) -> None:
    """A cancelled BEGIN must not leave a transaction open that nobody will end."""
    one, two = threaded(place), threaded(place)
    for _ in range(10):
        task = asyncio.create_task(_touch(one))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        async with asyncio.timeout(5):
            await _touch(two)
            await _touch(one)
    await close_all(place)


SLOW = """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600000)
SELECT COUNT(*) AS n FROM n"""


@pytest.mark.spec("K19")
async def test_a_task_cancelled_twice_in_a_slow_statement_is_rolled_back_all_the_same(place: Place) -> None:
    store = threaded(place)

    async def write() -> None:
        async with store.transaction() as tx:
            await note(tx, "gone")
            await tx.rows(_statement("slow", {None: SLOW}))

    task = asyncio.create_task(write())
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.sleep(0.005)
    task.cancel()  # while the rollback waits for its turn behind the slow statement
    await asyncio.gather(task, return_exceptions=True)
    async with asyncio.timeout(20):
        await _touch(store)
    assert await notes(store) == ["touch"]
    await close_all(place)


async def _touch(store: AnyStore) -> None:
    async with store.transaction() as tx:
        await brief_note(tx, "touch")


@pytest.mark.spec("K19")
async def test_writers_of_many_tasks_and_stores_take_turns(place: Place) -> None:
    stores = [threaded(place) for _ in range(3)]
    await asyncio.gather(*[_touch(store) for store in stores * 10])
    assert len(await notes(stores[0])) == 30
    await close_all(place)


@pytest.mark.spec("K19")
async def test_a_hint_rings_after_the_commit_and_never_after_a_rollback(place: Place) -> None:
    store = threaded(place)
    listener, other = store.listen("outbox"), store.listen("queue:x")
    while await listener.wait(0.3) or await other.wait(0.01):
        pass  # PostgreSQL's connection wakes every listener once when it stands
    with pytest.raises(ValueError):
        async with store.transaction() as tx:
            await tx.notify("outbox")
            raise ValueError
    assert not await listener.wait(0.05)
    async with store.transaction() as tx:
        await tx.notify("outbox")
        assert not await listener.wait(0.02), "not before the commit"
    assert await listener.wait(5)
    assert not await listener.wait(0.02) and not await other.wait(0.01)
    listener.close()
    other.close()
    await close_all(place)


@pytest.mark.spec("K19")
async def test_a_refused_statement_is_a_sentence_and_spoils_only_its_transaction(place: Place) -> None:
    store = threaded(place)
    with pytest.raises(StoreError, match="refused a statement"):
        async with store.transaction() as tx:
            await note(tx, "gone")
            await tx.rows(_statement("bad", {None: "SELECT nothing FROM nowhere"}))
    async with store.transaction() as tx:
        await note(tx, "kept")
    assert await notes(store) == ["kept"]
    await close_all(place)


@pytest.mark.spec("K19")
async def test_a_full_disk_on_sqlite_is_said_and_nothing_is_half_written(tmp_path: Path) -> None:
    """SQLite only: its file can be bounded by a pragma; PostgreSQL's disk cannot be filled from here."""
    store = SqliteStore(tmp_path / "small.db")
    await store.migrate(KERNEL)
    async with store.transaction() as tx:
        await note(tx, "before")
    (pages,) = await store._writer.execute("PRAGMA page_count")
    await store._writer.execute(f"PRAGMA max_page_count = {pages[0] + 4}")
    with pytest.raises(StoreFull, match=r"small\.db .*free space"):
        async with store.transaction() as tx:
            for _ in range(50):
                await note(tx, "x" * 4_000)
    assert await notes(store) == ["before"]
    await store._writer.execute("PRAGMA max_page_count = 100000")
    async with store.transaction() as tx:
        await note(tx, "after")
    assert await notes(store) == ["before", "after"]
    await store.close()


@pytest.mark.spec("K19")
async def test_what_is_no_sqlite_database_is_said_so(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database at all, but long enough to be read as one by mistake" * 20)
    store = SqliteStore(path)
    with pytest.raises(StoreUnavailable, match=r"notes\.txt"):
        await store.migrate(KERNEL)
    await store.close()


@pytest.mark.spec("K19")
async def test_a_sqlite_writer_that_holds_on_too_long_is_said_so(tmp_path: Path) -> None:
    """SQLite only: PostgreSQL's writers do not wait for each other."""
    one = SqliteStore(tmp_path / "busy.db")
    two = SqliteStore(tmp_path / "busy.db", busy_timeout_s=0.05)
    await one.migrate(KERNEL)
    async with one.transaction():
        with pytest.raises(StoreBusy, match=r"busy\.db"):
            async with two.transaction():
                raise AssertionError("must not be entered")
    await _touch(two)
    await one.close()
    await two.close()


@pytest.mark.spec("K19")
async def test_sqlite_keeps_the_loop_free_while_it_waits_for_the_disk(tmp_path: Path) -> None:
    """SQLite only. What is brief runs where it is asked; a commit, and a large batch, in the store's own thread."""
    store = SqliteStore(tmp_path / "threads.db")
    await store.migrate(KERNEL)
    threads: list[tuple[str, str]] = []
    assert store._writer._connection is not None
    store._writer._connection.set_trace_callback(
        lambda text: threads.append((text.split()[0], threading.current_thread().name.split("-")[0]))
    )
    async with store.transaction() as tx:
        await events.append(tx, [("a", 0, "claimed", None)], 0)
    async with store.transaction() as tx:
        await events.append(tx, [("a", 0, "claimed", "x" * 40_000)], 0)
    async with store.transaction():
        pass
    await store.close()
    here = threading.current_thread().name.split("-")[0]
    small = [("BEGIN", here), ("INSERT", here), ("COMMIT", "sqlite_0")]
    assert threads == [*small, small[0], ("INSERT", "sqlite_0"), small[2], small[0], ("COMMIT", here)]


@pytest.mark.spec("K1", "K19")
async def test_sqlite_is_opened_so_that_an_accepted_job_survives_power_loss(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "safe.db")
    assert (await store._writer.execute("PRAGMA journal_mode"))[0][0] == "wal"
    assert (await store._writer.execute("PRAGMA synchronous"))[0][0] == 2
    await store.close()


@pytest.mark.spec("K17")
async def test_what_is_to_be_told_is_told_after_the_commit_and_never_after_a_rollback(place: Place) -> None:
    store = threaded(place)
    told: list[str] = []
    async with store.transaction() as tx:
        await note(tx, "kept")
        tx.after_commit(lambda: told.append("kept"))
        assert told == []
    async with store.single_statement() as tx:
        await note(tx, "alone")
        tx.after_commit(lambda: told.append("alone"))
    with pytest.raises(ValueError):
        async with store.transaction() as tx:
            await note(tx, "gone")
            tx.after_commit(lambda: told.append("gone"))
            raise ValueError
    assert told == await notes(store) == ["kept", "alone"]
    await close_all(place)

"""Jobs from code that is no job: accepted, asked about, waited for, cancelled and answered through one client."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    App,
    Client,
    Context,
    IdempotencyConflict,
    InvalidInput,
    Job,
    JobFailed,
    NotAllowed,
    NotEnded,
    NotFound,
    Retry,
    SyncClient,
    stage,
)
from holdfast.engines.worker import Worker
from holdfast.errors import BadDeclaration, SchemaMismatch, SettingsError
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.questions import status
from holdfast.stores.clock import SystemClock
from holdfast.tables import audit
from tests.kernel.places import Place, close_all, rows

pytestmark = pytest.mark.spec("K1")
app = App("shop")
NOBODY = "018f0000-0000-7000-8000-000000000000"
gate = asyncio.Event()


@dataclass
class Order:
    number: int


@dataclass
class Receipt:
    text: str


@app.job()
class Pay(Job[Order, Receipt]):
    @stage(retry=Retry(attempts=1))
    async def pay(self, ctx: Context, order: Order) -> Receipt:
        if order.number < 0:
            raise ValueError("nothing to pay")
        await ctx.progress(done=1, of=2)
        await ctx.progress(done=order.number, of=2)
        return Receipt(f"paid {order.number}")


@app.job()
class Slow(Job[int, int]):
    @stage()
    async def run(self, ctx: Context, number: int) -> int:
        await gate.wait()
        return number


@app.job()
class Ask(Job[str, str]):
    @stage()
    async def ask(self, ctx: Context, key: str) -> str:
        answer = await ctx.wait_for(key, timeout_s=60)
        return "nothing" if answer is None else str(answer.value)


def url_of(place: Place) -> str:
    return place.url if place.dialect == "postgres" else f"sqlite:///{place.url}"


@pytest.fixture
async def kernel(place: Place) -> AsyncIterator[Kernel]:
    global gate
    gate = asyncio.Event()  # of this test's loop
    yield place.kernel(app, clock=SystemClock())
    await close_all(place)


@asynccontextmanager
async def working(kernel: Kernel) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(Worker(kernel).run(stop))
    try:
        yield
    finally:
        gate.set()
        stop.set()
        await task


async def test_a_job_is_followed_from_its_order_to_its_result(kernel: Kernel) -> None:
    client = Client(kernel)
    job_id = await client.enqueue(Pay, Order(2), key="order:2")
    before = await client.status(job_id)
    assert (before.state, before.stage, before.has_ended, before.ended_at) == ("queued", "pay", False, None)
    assert await client.progress(job_id) is None
    async with working(kernel):
        assert await client.result(Pay, job_id, timeout_s=20) == Receipt("paid 2")
    after = await client.wait(job_id, timeout_s=0)
    assert after.has_ended and after.ended_at is not None and after.why.startswith("It succeeded")
    assert await client.progress(job_id) == {"done": 2, "of": 2}
    assert await client.enqueue(Pay, Order(2), key="order:2") == job_id
    with pytest.raises(IdempotencyConflict):
        await client.enqueue(Pay, Order(3), key="order:2")


@pytest.mark.parametrize("apart", [False, True], ids=["one process", "two processes"])
async def test_whoever_waits_is_woken_by_the_end(
    place: Place, kernel: Kernel, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody looks a second time within the time limit, so that only the ring can end the wait. A file rings in its own
    process only: elsewhere it is looked for."""
    is_heard = place.dialect == "postgres" or not apart
    worker = place.kernel(app, clock=SystemClock(), seed=2) if apart else kernel
    if is_heard:
        monkeypatch.setattr(status, "LOOK_S_MIN", 3_600.0)
    client = Client(kernel)
    job_id = await client.enqueue(Slow, 7)
    async with working(worker):
        listener = worker.store.listen("heard")
        while apart and is_heard and not (worker.store.is_heard() and kernel.store.is_heard()):
            kernel.store.listen("heard")
            await listener.wait(0.01)
        waiting = asyncio.create_task(client.result(Slow, job_id, timeout_s=7_200))
        while is_heard and job_id not in worker.awaited:
            await listener.wait(0.01)
        gate.set()
        async with asyncio.timeout(20):
            assert await waiting == 7


async def test_a_wait_that_is_too_short_says_where_the_job_is(kernel: Kernel) -> None:
    client = Client(kernel)
    job_id = await client.enqueue(Pay, Order(1))
    with pytest.raises(NotEnded, match=f"Job {job_id} has not ended: it is queued in the stage 'pay'"):
        await client.wait(job_id, timeout_s=0.01)
    with pytest.raises(TimeoutError):
        await client.result(Pay, job_id)
    with pytest.raises(InvalidInput, match="timeout_s of -1"):
        await client.wait(job_id, timeout_s=-1)


async def test_a_job_without_a_result_says_why(kernel: Kernel) -> None:
    client = Client(kernel)
    dead, cancelled = await client.enqueue(Pay, Order(-1)), await client.enqueue(Pay, Order(1))
    await client.cancel(cancelled, actor="ann")
    await Worker(kernel).run_until_idle()
    with pytest.raises(JobFailed, match="BUG: ValueError: nothing to pay") as failed:
        await client.result(Pay, dead)
    assert failed.value.failure.error_class == "BUG"
    assert ((await client.status(dead)).error or "").startswith("BUG: ValueError: nothing to pay")
    with pytest.raises(JobFailed, match="CANCELLED"):
        await client.result(Pay, cancelled)
    with pytest.raises(NotAllowed):
        await client.cancel(cancelled)
    with pytest.raises(InvalidInput, match=r"not 'shop\.slow'"):
        await client.result(Slow, dead, timeout_s=0)
    async with kernel.store.reading() as tx:
        assert [row.actor for row in await audit.of_subject(tx, f"job:{cancelled}")] == ["ann"]


@pytest.mark.parametrize("unknown", [NOBODY, "17", ""])
async def test_a_job_that_is_not_there_is_not_found(kernel: Kernel, unknown: str) -> None:
    client = Client(kernel)
    for ask in (client.status, client.progress, client.cancel):
        with pytest.raises(NotFound, match="There is no job"):
            await ask(unknown)
    with pytest.raises(NotFound):
        await client.result(Pay, unknown)


async def test_many_are_accepted_in_order_and_with_keys_only_once(kernel: Kernel) -> None:
    client = Client(kernel)
    plain = await client.enqueue_many(Pay, (Order(n) for n in range(150)), owner="ann")
    keyed = await client.enqueue_many(Pay, [Order(1), Order(2)], key=lambda order: f"o{order.number}")
    assert await client.enqueue_many(Pay, [Order(1), Order(2)], key=lambda order: f"o{order.number}") == keyed
    assert len(plain) == 150 and plain == sorted(plain)
    count = await rows(kernel.store, "SELECT COUNT(*) AS jobs, COUNT(owner) AS owned FROM holdfast_jobs")
    assert count == [{"jobs": 152, "owned": 150}]


@pytest.mark.parametrize("first", ["the answer", "the wait"])
async def test_an_answer_reaches_the_job_that_waits_whoever_comes_first(kernel: Kernel, first: str) -> None:
    client, worker = Client(kernel), Worker(kernel)
    job_id = await client.enqueue(Ask, "sure?")
    if first == "the wait":
        await worker.run_until_idle()
    assert await client.answer("sure?", {"yes": True}) is (first == "the wait")
    await worker.run_until_idle()
    assert await client.result(Ask, job_id) == "{'yes': True}"


@pytest.mark.parametrize("value", [float("nan"), object()])
async def test_an_answer_that_is_no_json_is_refused(kernel: Kernel, value: object) -> None:
    with pytest.raises(InvalidInput, match="The answer of 'sure\\?' cannot be written as JSON"):
        await Client(kernel).answer("sure?", value)


async def test_a_client_is_opened_by_its_app_and_a_url(place: Place) -> None:
    async with Client.open(app, database=url_of(place)) as client:
        assert (await client.status(await client.enqueue(Pay, Order(1)))).state == "queued"
    await close_all(place)


async def test_a_database_without_tables_is_refused_with_what_to_do(tmp_path: Any) -> None:
    with pytest.raises(SchemaMismatch, match="The database of 'shop' has no Holdfast tables; run holdfast migrate"):
        async with Client.open(app, database=f"sqlite:///{tmp_path / 'none.db'}"):
            pass
    with pytest.raises(BadDeclaration, match="A client needs the app whose jobs it is for"):
        Client.open(database="sqlite:///x.db")


def test_threads_without_a_loop_share_one_client(place: Place) -> None:
    with SyncClient.open(app, database=url_of(place)) as client, ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda number: client.enqueue(Pay, Order(number)), range(24)))
        assert len(set(ids)) == 24
        assert client.status(ids[0]).state == "queued"
        assert client.progress(ids[0]) is None
        client.cancel(ids[0])
        assert client.wait(ids[0], timeout_s=5).state == "cancelled"
        with pytest.raises(JobFailed):
            client.result(Pay, ids[0])
        assert client.enqueue_many(Pay, [Order(1)], key=lambda order: "one") == [
            client.enqueue(Pay, Order(1), key="one")
        ]
        assert client.answer("nobody", 1) is False


def test_a_fork_begins_anew(place: Place) -> None:
    with SyncClient.open(app, database=url_of(place)) as client:
        first = client.enqueue(Pay, Order(1))
        child = os.fork()
        if child == 0:
            try:
                fits = client.status(first).state == "queued" and client.enqueue(Pay, Order(2)) != first
            except BaseException:
                fits = False
            os._exit(0 if fits else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client.status(first).state == "queued"


async def test_a_sync_client_blocks_no_loop(place: Place) -> None:
    client = SyncClient.open(app, database=url_of(place))
    with pytest.raises(NotAllowed, match="would block the event loop that runs here; use Client and await it"):
        client.status(NOBODY)
    client.close()
    await close_all(place)


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
async def test_a_client_that_another_loop_has_used_is_refused_in_a_sentence(place: Place) -> None:
    """PostgreSQL only: SQLite's connections belong to no loop."""
    place.kernel(app, clock=SystemClock())
    client = Client.open(app, database=place.url)
    await asyncio.to_thread(asyncio.run, client.enqueue(Pay, Order(1)))
    with pytest.raises(NotAllowed, match=r"used on another event loop, .* open one for each loop \(each asyncio.run\)"):
        await client.enqueue(Pay, Order(2))
    await close_all(place)


def test_a_database_is_named_by_a_text() -> None:
    for database in (Path("jobs.db"), object()):
        with pytest.raises(SettingsError, match="A database is named by its URL, which is a text, and not by a"):
            Client.open(app, database=database)  # type: ignore[arg-type]

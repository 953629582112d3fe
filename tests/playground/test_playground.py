"""What a visitor of the front page may break, and the account that must stay true while it is broken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path

import httpx
import pytest
from rich.console import Console
from tests.kernel.places import Place

from holdfast.engines.run import Duties, run
from holdfast.errors import HoldfastError, NotFound, StoreUnavailable
from holdfast.http.playground import may_be_broken
from holdfast.kernel.kernel import Tuning
from holdfast.kernel.submit import submit_many
from holdfast.playground import postcards, sabotage
from holdfast.playground.account import PlaygroundAccount, read_account
from holdfast.playground.book import Book
from holdfast.playground.demo_stage import DemoStage
from holdfast.playground.postcards import PlaygroundCard, postcards_app
from holdfast.playground.sabotage import Fault, Sabotage
from holdfast.settings import Settings
from holdfast.stores.clock import SystemClock
from holdfast.stores.statement import _statement
from holdfast.system import OpenSystem, System

QUICK = Tuning(lease_s=1.5, renew_s=0.5, reap_s=0.1, breaker_s=0.1, reconcile_s=0.2, reconcile_grace_s=0.1)
PATIENCE_S = 40.0


class Broken:
    """Postcards with a worker, faults and an account."""

    def __init__(self, system: OpenSystem, faults: Sabotage) -> None:
        self.system, self.faults, self.book = system, faults, faults.book

    async def send(self, count: int) -> None:
        kind = type(self.system.kernel.registry.kind("postcards.send").instance)
        self.book.accept("postcards", await submit_many(self.system.kernel, kind, [PlaygroundCard()] * count))

    async def account(self) -> PlaygroundAccount:
        return await read_account(self.book, [self.system])

    async def until(self, is_so: object) -> PlaygroundAccount:
        """The account, once it is as wanted; it must add up at every look."""
        assert callable(is_so)
        async with asyncio.timeout(PATIENCE_S):
            while True:
                now = await self.account()
                assert now.accepted == now.done + now.waiting + now.dead + now.cancelled + now.lost
                assert (now.lost, now.twice) == (0, 0)
                if is_so(now):
                    return now
                await asyncio.sleep(0.05)

    def switch(self, provider: str, fault: Fault) -> None:
        self.faults.switch([self.system], "postcards", provider, fault)


@asynccontextmanager
async def broken(place: Place, folder: Path) -> AsyncIterator[Broken]:
    book = Book(folder / "playground.db")
    app = postcards_app(book)
    kernel = place.kernel(app, clock=SystemClock(), tuning=QUICK)
    system = OpenSystem(System("postcards", "Postcards", "U", lambda env: app), kernel, {})
    faults = Sabotage(book, frozenset({"postcards"}))
    faults.attach([system])
    stop = asyncio.Event()

    async def run_worker(worker: sabotage.Worker, stopping: asyncio.Event) -> None:
        await faults.run_worker("postcards", worker, stopping)

    running = asyncio.create_task(run(kernel, Duties(concurrency=20, grace_s=1), stop, run_worker=run_worker))
    try:
        yield Broken(system, faults)
    finally:
        stop.set()
        await running
        await kernel.store.close()
        book.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sabotage, "RESTART_S", 0.1)
    monkeypatch.setattr(sabotage, "BUSY_S", 0.5)
    monkeypatch.setattr(postcards, "CALL_S", 1.5)
    monkeypatch.setattr(postcards, "BREAKER", postcards.BreakerPolicy(cooldown_s=0.5))


@pytest.mark.spec("K3", "K12")
async def test_a_worker_that_is_killed_in_the_middle_loses_nothing_and_repeats_nothing(
    place: Place, tmp_path: Path
) -> None:
    async with broken(place, tmp_path) as world:
        await world.send(30)
        await world.until(lambda now: now.running >= 10)
        names = world.faults.kill("postcards")
        with pytest.raises(NotFound, match="No worker"):
            world.faults.kill("postcards")
        await asyncio.sleep(0)
        left = await world.account()
        assert left.running >= 1, "nothing was given back: its leases must end"
        done = await world.until(lambda now: now.done == 30)
        assert (done.performed, done.twice) == (30, 0)
        async with world.system.kernel.store.reading() as tx:
            text = "SELECT COUNT(*) AS lost FROM holdfast_job_events WHERE type = 'lost'"
            (row,) = await tx.rows(_statement("lost", {None: text}))
        assert row["lost"] >= 1 and len(names) == 1, "attempts were really lost with it"


@pytest.mark.spec("K9", "K12")
async def test_every_fault_ends_when_it_is_mended_and_the_account_adds_up_throughout(
    place: Place, tmp_path: Path
) -> None:
    async with broken(place, tmp_path) as world:
        world.switch("printer", Fault.DOWN)
        await world.send(30)
        await world.until(lambda now: now.held >= 1)
        assert (await world.account()).done == 0
        world.switch("printer", Fault.NONE)
        world.switch("post office", Fault.LOST)
        await world.until(lambda now: now.performed >= 5)
        world.switch("post office", Fault.BUSY)
        await world.send(5)
        world.switch("post office", Fault.NONE)
        done = await world.until(lambda now: now.done == 35)
        assert (done.performed, done.dead) == (35, 0), "every card is in the post office's book once"
        with pytest.raises(NotFound, match="No system 'postcards' with a provider 'bank'"):
            world.switch("bank", Fault.DOWN)


def test_the_book_sees_what_is_done_twice_and_outlives_its_process(tmp_path: Path) -> None:
    book = Book(tmp_path / "book.db")
    book.accept("shop", ["a", "b", "a"])
    for effect, provider_id in (("x", "1"), ("x", "1"), ("y", "1"), ("y", "2")):
        book.deliver(effect, provider_id)
    book.close()
    again = Book(tmp_path / "book.db")
    found = again.read()
    assert (sorted(found.receipts["shop"]), found.deliveries, found.twice) == (["a", "b"], 3, 1)
    assert (again.delivered("x"), again.delivered("z")) == ("1", None)
    again.forget()
    assert again.read().receipts == {}
    again.close()


@pytest.mark.parametrize(
    ("host", "env", "may"),
    [
        ("127.0.0.1", "development", True),
        ("::1", "development", True),
        ("localhost", "development", True),
        ("0.0.0.0", "development", False),
        ("10.0.0.7", "development", False),
        ("holdfast.example.test", "development", False),
        ("127.0.0.1", "production", False),
    ],
)
def test_only_a_process_that_this_machine_alone_can_reach_may_be_broken(host: str, env: str, may: bool) -> None:
    assert may_be_broken(Settings(host=host, env=env)) is may


@pytest.mark.parametrize(("status", "is_refused"), [(200, False), (399, False), (400, True), (503, True)])
async def test_a_refusal_ends_the_demo(status: int, is_refused: bool, tmp_path: Path) -> None:
    answers = httpx.MockTransport(lambda request: httpx.Response(status, json={"path": request.url.path}))
    async with httpx.AsyncClient(transport=answers, base_url="http://demo.test") as client:
        stage = DemoStage(tmp_path, [], client, Console(file=StringIO()))
        if is_refused:
            with pytest.raises(HoldfastError, match=f"refused with {status}: .*/jobs"):
                await stage.ask("POST", "/jobs")
        else:
            assert await stage.ask("POST", "/jobs") == {"path": "/jobs"}


def test_a_book_that_cannot_be_opened_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "playground.db").write_text("this is no database, and longer than the header of one" * 3)
    with pytest.raises(StoreUnavailable, match=r"Cannot open the playground's book .*not a database; free space"):
        Book(tmp_path / "playground.db")

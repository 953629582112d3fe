"""Stopping: finish within the grace time, else give back at no cost; and a worker whose database goes away."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast import App, Context, Job, stage
from holdfast.__main__ import main
from holdfast.engines.run import Duties, run
from holdfast.engines.stopping import STOPPING, stop_on_signals
from holdfast.engines.worker import Worker
from holdfast.errors import StoreUnavailable
from holdfast.kernel.kernel import Kernel, Tuning
from holdfast.kernel.submit import submit
from holdfast.testing import HandClock
from tests.kernel.places import Place, close_all, rows

QUICK = Tuning(poll_s=0.02, lease_s=60, renew_s=20)


class Desk:
    """An app whose jobs wait until they are let go, or for ever."""

    def __init__(self) -> None:
        self.app = App("desk")
        self.began: asyncio.Queue[str] = asyncio.Queue()
        self.go = asyncio.Event()
        self.ran: list[str] = []
        desk = self

        @self.app.job()
        class Paper(Job[str]):
            @stage()
            async def sign(self, ctx: Context, text: str) -> str:
                desk.ran.append(ctx.job_id)
                desk.began.put_nowait(ctx.job_id)
                await desk.go.wait()
                return text

        self.job = Paper


async def states(kernel: Kernel) -> list[tuple[str, int, int]]:
    found = await rows(kernel.store, "SELECT state, failures, crashes FROM holdfast_jobs ORDER BY id")
    return [(row["state"], row["failures"], row["crashes"]) for row in found]


async def working(place: Place, clock: HandClock, desk: Desk, grace_s: float) -> tuple[Kernel, Any, asyncio.Event]:
    kernel = place.kernel(desk.app, clock=clock, tuning=QUICK)
    stop = asyncio.Event()
    task = asyncio.create_task(Worker(kernel, concurrency=4, grace_s=grace_s).run(stop))
    return kernel, task, stop


@pytest.mark.spec("K16")
async def test_what_is_in_flight_is_finished_within_the_grace_time(place: Place, clock: HandClock) -> None:
    desk = Desk()
    kernel, task, stop = await working(place, clock, desk, grace_s=30)
    for number in range(3):
        await submit(kernel, desk.job, str(number))
        clock.advance(1)
    for _ in range(3):
        await desk.began.get()
    stop.set()
    late = await submit(kernel, desk.job, "late")
    desk.go.set()
    await asyncio.wait_for(task, 10)
    assert await states(kernel) == [("succeeded", 0, 0)] * 3 + [("queued", 0, 0)]
    assert late not in desk.ran, "nothing is claimed after the stop"
    await close_all(place)


@pytest.mark.spec("K16")
@pytest.mark.parametrize("grace_s", [0, 0.05])
async def test_what_does_not_finish_is_given_back_at_no_cost(place: Place, clock: HandClock, grace_s: float) -> None:
    desk = Desk()
    kernel, task, stop = await working(place, clock, desk, grace_s)
    for number in range(6):
        await submit(kernel, desk.job, str(number))
    await desk.began.get()
    stop.set()
    await asyncio.wait_for(task, 10)
    assert await states(kernel) == [("queued", 0, 0)] * 6
    leases = await rows(kernel.store, "SELECT lease_owner, lease_until, run_at FROM holdfast_jobs")
    assert all(row["lease_owner"] is None and row["run_at"] <= clock.now_ms() for row in leases)
    events = await rows(kernel.store, "SELECT COUNT(*) AS n FROM holdfast_job_events WHERE type = 'lost'")
    assert events == [{"n": 0}]
    await close_all(place)


@pytest.mark.spec("K16")
async def test_a_job_that_is_stopped_before_it_began_is_given_back_too(place: Place, clock: HandClock) -> None:
    desk = Desk()
    kernel = place.kernel(desk.app, clock=clock, tuning=QUICK)
    for number in range(3):
        await submit(kernel, desk.job, str(number))
    worker = Worker(kernel, grace_s=0)
    worker._start((await worker._step(10))[0])
    worker._draining = True
    for one in list(worker._running.values()):
        worker._abandon(one)  # before any of them had a chance to run
    await asyncio.wait_for(worker._stream(), 10)
    assert desk.ran == [] and await states(kernel) == [("queued", 0, 0)] * 3
    await close_all(place)


@pytest.mark.spec("K16")
async def test_a_claim_under_way_when_the_stop_comes_is_given_back(place: Place, clock: HandClock) -> None:
    desk = Desk()
    kernel = place.kernel(desk.app, clock=clock, tuning=QUICK)
    claiming, stop = asyncio.Event(), asyncio.Event()

    async def slow_commit(name: str) -> None:
        if name == "claim.after_commit" and not claiming.is_set():
            claiming.set()
            await stop.wait()
            await asyncio.sleep(0.05)

    await submit(kernel, desk.job, "x")
    kernel.failpoint = slow_commit
    task = asyncio.create_task(Worker(kernel, streams=1, grace_s=0.01).run(stop))
    await claiming.wait()
    stop.set()
    await asyncio.wait_for(task, 10)
    assert desk.ran == [] and await states(kernel) == [("queued", 0, 0)]
    await close_all(place)


@pytest.mark.spec("K16")
async def test_the_whole_process_runner_stops_and_leaves_the_store_open(place: Place, clock: HandClock) -> None:
    desk = Desk()
    desk.go.set()
    kernel = place.kernel(desk.app, clock=clock, tuning=QUICK)
    stop = asyncio.Event()
    task = asyncio.create_task(run(kernel, Duties(concurrency=3, grace_s=1), stop))
    job_id = await submit(kernel, desk.job, "x")
    assert await desk.began.get() == job_id
    stop.set()
    await asyncio.wait_for(task, 10)
    assert await states(kernel) == [("succeeded", 0, 0)]
    await close_all(place)


class Unlucky:
    """Loses the answer of chosen commits: the write happens, and the worker is told that nobody knows."""

    def __init__(self, store: Any) -> None:
        self.lose = 0
        begin = store.transaction

        @asynccontextmanager
        async def transaction() -> AsyncIterator[Any]:
            async with begin() as tx:
                yield tx
            if self.lose:
                self.lose -= 1
                raise StoreUnavailable("the answer was lost")

        store.transaction = transaction


@pytest.mark.spec("K19", "K3")
@pytest.mark.parametrize("streams", [1, 2])
async def test_a_lost_answer_loses_no_job_and_runs_none_twice(
    place: Place, clock: HandClock, streams: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.engines.worker.STORE_BACKOFF_S", 0.01)
    desk = Desk()
    desk.go.set()
    kernel = place.kernel(desk.app, clock=clock, tuning=QUICK)
    for number in range(30):
        await submit(kernel, desk.job, str(number))
    unlucky = Unlucky(kernel.store)
    unlucky.lose = 3
    stop = asyncio.Event()
    task = asyncio.create_task(Worker(kernel, concurrency=5, streams=streams).run(stop))
    while len(set(desk.ran)) < 30:
        await asyncio.wait_for(desk.began.get(), 10)
    stop.set()
    await asyncio.wait_for(task, 10)
    assert await states(kernel) == [("succeeded", 0, 0)] * 30
    assert len(desk.ran) == 30, "what was claimed without our knowing was given back, not run twice"
    await close_all(place)


@pytest.mark.spec("K16", "K17")
async def test_a_worker_signs_in_and_signs_off(place: Place, clock: HandClock) -> None:
    desk = Desk()
    kernel = place.kernel(desk.app, clock=clock, tuning=QUICK)
    worker = Worker(kernel)
    await worker.renew()
    assert [row["name"] for row in await rows(kernel.store, "SELECT name FROM holdfast_workers")] == [worker.name]
    stop = asyncio.Event()
    stop.set()
    await asyncio.wait_for(worker.run(stop), 10)
    assert await rows(kernel.store, "SELECT name FROM holdfast_workers") == []
    await close_all(place)


@pytest.mark.spec("K2", "001.21")
async def test_a_commit_wakes_an_idle_worker_at_once(place: Place, clock: HandClock) -> None:
    desk = Desk()
    desk.go.set()
    kernel = place.kernel(desk.app, clock=clock, tuning=Tuning(poll_s=600))
    stop = asyncio.Event()
    task = asyncio.create_task(Worker(kernel).run(stop))
    for number in range(5):
        await asyncio.sleep(0.02)  # let it fall idle
        job_id = await submit(kernel, desk.job, str(number))
        assert await asyncio.wait_for(desk.began.get(), 10) == job_id
    stop.set()
    await asyncio.wait_for(task, 10)
    await close_all(place)


@pytest.mark.spec("K2")
async def test_a_ring_during_an_empty_claim_is_not_lost(place: Place, clock: HandClock) -> None:
    desk = Desk()
    desk.go.set()
    kernel = place.kernel(desk.app, clock=clock, tuning=Tuning(poll_s=600))
    done = asyncio.Event()

    async def work_arrives(name: str) -> None:
        if name == "claim.after_commit" and not done.is_set():
            done.set()
            await submit(kernel, desk.job, "x")
            await asyncio.sleep(0.05)  # the bell is heard while the claim has not yet returned

    kernel.failpoint = work_arrives
    stop = asyncio.Event()
    task = asyncio.create_task(Worker(kernel, streams=1).run(stop))
    await asyncio.wait_for(desk.began.get(), 10)
    stop.set()
    await asyncio.wait_for(task, 10)
    await close_all(place)


@pytest.fixture
def own_signals() -> Iterator[None]:
    """A signal to stop that nobody heeds is nothing here."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.spec("K27")
async def test_a_run_that_ends_by_itself_leaves_signals_as_they_were(own_signals: None) -> None:
    """A program that goes on after it, as a shell or a test does, is not ended by a countdown that nobody waits for."""
    handlers = [signal.getsignal(number) for number in STOPPING]
    with stop_on_signals() as stop:
        assert [signal.getsignal(number) for number in STOPPING] != handlers
        assert sum(one.name == "holdfast stop" for one in threading.enumerate()) == 1
    assert [signal.getsignal(number) for number in STOPPING] == handlers
    heard_by = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(heard_by)
    assert heard_by == -1 and not stop.is_set()
    for one in threading.enumerate():
        if one.name == "holdfast stop":
            one.join(10)
            assert not one.is_alive()


@pytest.mark.spec("K27")
@pytest.mark.parametrize(("pid", "exits"), [(1, [128 + signal.SIGTERM]), (2, [])])
def test_the_first_process_of_a_container_heeds_a_signal_that_comes_while_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch, own_signals: None, pid: int, exits: list[int]
) -> None:
    """Of any other process the system itself makes an end."""
    ended: list[int] = []
    monkeypatch.setattr(os, "getpid", lambda: pid)
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(sys, "argv", ["holdfast", "--version"])
    main()
    signal.raise_signal(signal.SIGTERM)
    assert ended == exits

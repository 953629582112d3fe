"""A worker keeps places for keys that it runs nothing of: their first job waits for nobody's job to end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast import App, Context, Job, stage
from holdfast.core.outcome import Released
from holdfast.engines.newcomers import kept_places
from holdfast.engines.worker import Worker
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.submit import submit, submit_many
from holdfast.kernel.turn import turn
from holdfast.stores.clock import SystemClock
from tests.kernel.places import Place, rows

PLACES, KEPT = 20, 1
PATIENCE_S = 20.0


class Crowd:
    """An app whose jobs begin and stay until they are let go."""

    def __init__(self) -> None:
        self.app = App("crowd")
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.let_go = asyncio.Event()

        @self.app.job(fair_by="owner")
        class Stay(Job[str]):
            @stage()
            async def stay(self, ctx: Context, who: str) -> None:
                await crowd.begun.put(who)
                await crowd.let_go.wait()

        crowd, self.job = self, Stay

    async def next(self) -> str:
        async with asyncio.timeout(PATIENCE_S):
            return await self.begun.get()


@asynccontextmanager
async def crowded(place: Place, crowd: Crowd) -> AsyncIterator[tuple[Kernel, Worker]]:
    """A worker all of whose places are taken by one key, but for those that it keeps."""
    kernel = place.kernel(crowd.app, clock=SystemClock())
    await submit_many(kernel, crowd.job, ["noisy"] * (3 * PLACES), owner="noisy")
    worker, stop = Worker(kernel, concurrency=PLACES), asyncio.Event()
    running = asyncio.ensure_future(worker.run(stop))
    assert [await crowd.next() for _ in range(PLACES - KEPT)] == ["noisy"] * (PLACES - KEPT)
    while worker._stepping or worker._reserved:
        await worker._wake.wait()
        await asyncio.sleep(0)
    yield kernel, worker
    crowd.let_go.set()
    stop.set()
    await running


@pytest.mark.spec("K25")
async def test_a_newcomer_starts_while_all_other_places_are_taken_by_one_key(place: Place) -> None:
    crowd = Crowd()
    async with crowded(place, crowd) as (kernel, worker):
        await submit(kernel, crowd.job, "quiet", owner="quiet")
        assert await crowd.next() == "quiet"
        assert len(worker._running) == PLACES
        await submit(kernel, crowd.job, "noisy", owner="noisy")
        await submit(kernel, crowd.job, "third", owner="third")
        await worker._newcomers.look(worker._spare())
        assert crowd.begun.empty(), "no place is left, for whomever"


@pytest.mark.spec("K25")
async def test_a_kept_place_is_for_no_key_that_runs_here_already(place: Place) -> None:
    crowd = Crowd()
    async with crowded(place, crowd) as (_, worker):
        assert worker._spare() == KEPT
        await worker._newcomers.look(worker._spare())
        assert len(worker._running) == PLACES - KEPT


@pytest.mark.spec("K25")
async def test_a_look_that_finds_nobody_is_soon_followed_by_another(place: Place) -> None:
    crowd = Crowd()
    async with crowded(place, crowd) as (kernel, worker):
        newcomers, looks, looked = worker._newcomers, [], asyncio.Event()
        running = newcomers._running
        newcomers._running = lambda: looks.append(newcomers.is_looking) or looked.set() or running()
        newcomers.rung.set()
        await looked.wait()
        assert looks == [True], "a stop waits for a look"
        await submit(kernel, crowd.job, "quiet", owner="quiet")
        assert await crowd.next() == "quiet"


@pytest.mark.spec("K16", "K25")
async def test_a_newcomer_that_was_leased_while_the_worker_stops_is_given_back(place: Place) -> None:
    crowd = Crowd()
    kernel = place.kernel(crowd.app, clock=SystemClock())
    await submit(kernel, crowd.job, "quiet", owner="quiet")
    worker = Worker(kernel, concurrency=PLACES)
    taken, _ = await turn(kernel, worker.name, ["crowd"], [], 1)
    worker._draining = True
    worker._start(taken)
    assert [type(one.outcome) for one in worker._finished] == [Released] and not worker._running


def test_a_small_worker_and_one_without_turns_keep_no_place(place: Place) -> None:
    fair, plain = App("fair"), App("plain")

    @fair.job(fair_by="owner")
    class Go(Job[str]):
        @stage()
        async def go(self, ctx: Context, who: str) -> None: ...

    kernel = place.kernel(fair, plain, clock=SystemClock())
    assert [kept_places(kernel, ["fair"], places) for places in (1, 9, 10, 50, 400)] == [0, 0, 1, 2, 20]
    assert kept_places(kernel, ["plain"], 400) == 0
    assert kept_places(Kernel(kernel.store, Registry([plain])), ["plain"], 400) == 0


TURN_INDEXES = ("holdfast_jobs_turns", "holdfast_jobs_waiting_turn", "holdfast_jobs_admitted")


@pytest.mark.spec("K25")
async def test_a_kind_that_takes_no_turns_leaves_nothing_in_the_indexes_of_turns(place: Place) -> None:
    """Every job of every app would pay for an index that forgot whom it is for."""
    crowd, plain = Crowd(), App("plain")

    @plain.job()
    class Go(Job[int]):
        @stage()
        async def go(self, ctx: Context, number: int) -> None: ...

    kernel = place.kernel(crowd.app, plain, clock=SystemClock())
    await submit_many(kernel, Go, range(40))
    assert await entries(kernel) == dict.fromkeys(TURN_INDEXES, 0)
    await submit_many(kernel, crowd.job, ["noisy"] * 40, owner="noisy")
    assert await entries(kernel) == {**dict.fromkeys(TURN_INDEXES, 40), "holdfast_jobs_admitted": 0}
    taken, _ = await turn(kernel, "w", ["crowd"], [], 40)
    assert len(taken) == 40 and await entries(kernel) == dict.fromkeys(TURN_INDEXES, 0)


async def entries(kernel: Kernel) -> dict[str, int]:
    """How many rows each index holds, as a statement that can use it alone would count them."""
    store = kernel.store
    if store.dialect == "sqlite":
        texts = await rows(store, "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
        whole = {row["name"]: row["sql"] for row in texts}
    else:
        texts = await rows(
            store, "SELECT indexname AS name, indexdef AS sql FROM pg_indexes WHERE schemaname = 'public'"
        )
        whole = {row["name"]: row["sql"] for row in texts}
    counts = {}
    for name in TURN_INDEXES:
        where = whole[name].partition(" WHERE ")[2] or "TRUE"
        (row,) = await rows(store, f"SELECT COUNT(*) AS number FROM holdfast_jobs WHERE {where}")
        counts[name] = row["number"]
    return counts
